"""One look a solution: no two of the registry look alike, to colour-blind readers neither."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from fedsel._internal import palette
from fedsel._internal.palette import BROKEN, COLOURS, GREY, PALE, Look, look, style
from fedsel.solutions import names

ROOT = Path(__file__).parents[1]
# Machado, Oliveira and Fernandes 2009: what who lacks one kind of cone sees, in linear RGB.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def lab(colour, vision):
    """CIE L*a*b* of a colour as it is seen."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(VISIONS[vision] @ linear, 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.95047, 1, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_stay_apart(vision):
    """A distance of 15 is seen at a glance; 2.3 is the least that anybody sees."""
    lights = {colour: lab(colour, vision) for colour in COLOURS if colour != GREY}
    for one, other in combinations(lights, 2):
        assert np.linalg.norm(lights[one] - lights[other]) > 15, (one, other)


def test_no_two_solutions_look_alike():
    looks = {name: look(name) for name in names()}
    assert len(set(looks.values())) == len(looks) >= 95
    assert all(found.colour in COLOURS for found in looks.values())
    # Those that one figure shows most often differ in their markers alone.
    together = ("NP", "PM", "PM-RP", "EXP-PM", "PE-PM", "PS-PM", "J", "RJ", "PrivUnit")
    assert len({look(name).marker for name in together}) == len(together)
    assert len({look(name).colour for name in ("PM", "EXP-PM", "PE-PM", "PS-PM", "J", "RJ")}) == 6


def test_a_variant_keeps_the_colour():
    for name in ("PS-PM", "PS-PM-C", "PS-PM-O", "PS-PM-C-O", "PS-HM", "PS"):
        assert look(name).colour == look("PS-PM").colour
    lines = [look(f"PS-PM{end}").line for end in ("", "-C", "-O", "-C-O")]
    assert len(set(lines)) == 4


def test_names_of_ones_own_have_a_look_that_stays():
    for name in ("R-PS-Duchi", "PS-mine", "", "\udcff", "_hidden", "RJ2"):
        assert look(name) == look(name)
        assert isinstance(look(name), Look)
        assert look(name).line == BROKEN
    assert style("RJ", linewidth=2)["linewidth"] == 2


def test_figures_take_their_colours_from_the_palette():
    """No module that draws has a colour of its own, beside black, white and greys."""
    allowed = {GREY, PALE, "#222222", "#444444"}
    drawing = [
        *(ROOT / "src/fedsel").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "examples").glob("*.py"),
    ]
    own = re.compile(r"#[0-9A-Fa-f]{6}\b|[\"']tab:\w+|color=[\"']C\d|f\"C\{")
    for path in drawing:
        if path == Path(palette.__file__) or "cli" in path.parts or "report" in path.parts:
            continue
        found = set(own.findall(path.read_text("utf-8")))
        assert found <= allowed, path
