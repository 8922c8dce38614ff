"""The files cannot drift from what fedsel does, and the command says where they would."""

import json
import shutil

import pytest

from tests.vectors.support import FOLDER, cases
from tools.vectors import KINDS, VERSION, differences, file_of, text_of, write
from tools.vectors.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_what_fedsel_makes_of_the_same_cases(kind, quick_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(quick_path))
    assert differences(FOLDER, kind) == []


def test_every_file_is_of_a_kind_and_all_are_small():
    files = sorted(FOLDER.iterdir())
    assert files == sorted(file_of(FOLDER, kind) for kind in KINDS)
    assert sum(file.stat().st_size for file in files) < 1_400_000
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        assert list(content) == ["kind", "version", "about", "cases"]
        assert (content["kind"], content["version"]) == (file.stem, VERSION)


def test_a_file_is_written_as_it_was(tmp_path):
    assert write(tmp_path, "requests") == len(cases("requests"))
    assert file_of(tmp_path, "requests").read_bytes() == file_of(FOLDER, "requests").read_bytes()
    assert text_of("requests").endswith("\n]}\n")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda cases: cases[0].update(factor=1.5), "updates.cases[0].factor: differs"),
        (lambda cases: cases.pop(), "updates.cases: 85 in place of 86"),
        (lambda cases: cases[0].pop("factor"), "updates.cases[0].factor: only one has it"),
        (lambda cases: cases[0].update(more=1), "updates.cases[0].more: only one has it"),
        (lambda cases: cases[0].update(result_f32="00"), "updates.cases[0].result_f32: differs"),
        (
            lambda cases: cases[-1].update(update_f32="0000803f" * 9),
            "updates.cases[85].update_f32: differs",
        ),
    ],
)
def test_a_change_is_found(tmp_path, change, place):
    content = json.loads(file_of(FOLDER, "updates").read_text(encoding="utf-8"))
    change(content["cases"])
    file_of(tmp_path, "updates").write_text(json.dumps(content), encoding="utf-8")
    assert differences(tmp_path, "updates") == [place]


def test_numbers_may_differ_by_their_tolerance_alone(tmp_path):
    content = json.loads(file_of(FOLDER, "updates").read_text(encoding="utf-8"))
    number, case = next((n, c) for n, c in enumerate(content["cases"]) if c["kind"] == "gradient")
    file = file_of(tmp_path, "updates")
    for factor, expected in ((1 + 5e-13, []), (1 + 5e-12, [f"updates.cases[{number}].gradient"])):
        changed = {**case, "gradient": [factor * x for x in case["gradient"]]}
        cases = [changed if n == number else c for n, c in enumerate(content["cases"])]
        file.write_text(json.dumps({**content, "cases": cases}), encoding="utf-8")
        found = differences(tmp_path, "updates")
        assert found == [f"{place}: differs" for place in expected]


def test_a_file_that_lacks_or_is_none(tmp_path):
    assert differences(tmp_path, "messages") == ["messages: there is no such file"]
    file_of(tmp_path, "messages").write_text("{", encoding="utf-8")
    assert differences(tmp_path, "messages") == ["messages: no JSON"]


def test_the_command_writes_and_checks(tmp_path, monkeypatch, capsys):
    few = {kind: KINDS[kind] for kind in ("requests", "updates")}
    monkeypatch.setattr("tools.vectors.writing.KINDS", few)
    out = tmp_path / "vectors"
    assert main(["--out", str(out), "--check"]) == 1
    assert "requests: there is no such file" in capsys.readouterr().err
    assert main(["--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{out / 'requests.json'}: 215 cases",
        f"{out / 'updates.json'}: 86 cases",
    ]
    assert main(["--out", str(out), "--check"]) == 0
    shutil.copy(file_of(out, "updates"), file_of(out, "requests"))
    assert main(["--out", str(out), "--check"]) == 1
    assert "requests.kind: differs" in capsys.readouterr().err
