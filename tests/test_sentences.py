"""The example `examples/sentences`: a small stand-in always, the real encoder if it is there."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parent.parent / "examples" / "sentences"
ROW = r"(?m)^(\w.*?) +d = +[\d,]+  ε = (\S+)  accuracy (\S+) %"
SENTENCE = "A café, déjà vu: unaffable!"
# What sentence-transformers 6.2.0 makes of it with the same weights.
PIECES = [101, 1037, 7668, 1010, 2139, 3900, 24728, 1024, 14477, 20961, 3468, 999, 102]
FIRST = [-0.0061, 0.00827, 0.04654, 0.0696]


@pytest.fixture(scope="module")
def minilm():
    spec = importlib.util.spec_from_file_location("minilm_of_sentences", EXAMPLE / "minilm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.xdist_group("torch")
def test_a_small_encoder_with_random_weights(tmp_path):
    picture, table = tmp_path / "figure.png", tmp_path / "runs.csv"

    def accuracies():
        command = [sys.executable, EXAMPLE, "--quick", "--plot", picture, "--csv", table]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {(name, float(e)): float(a) for name, e, a in re.findall(ROW, done.stdout)}

    found = accuracies()
    assert {name for name, _ in found} == {
        *("32 public directions", "last layer", "FedSelClassifier"),
        *("32 public directions, start", "last layer, start", "adapters, start"),
        "last layer, start, long steps",
    }
    for (name, epsilon), accuracy in found.items():
        if epsilon > 1 or "start" in name:
            assert accuracy > 85, (name, epsilon)  # 370 clients learn little at ε = 1
    assert picture.stat().st_size > 10_000
    before = table.read_text()
    assert accuracies() == found
    assert table.read_text() == before  # nothing was run again


def test_word_pieces_are_the_longest_that_are_known(minilm):
    vocabulary = [""] * 103 + ["un", "##aff", "##a", "##ffa", "##able", "cafe", ",", "中", "$"]
    ids = minilm.WordPiece(vocabulary)(["Unaffable,CAFÉ\u200b 中$", "unknown un"], 12)
    assert ids.tolist() == [
        [101, 103, 104, 107, 109, 108, 110, 111, 102, 0, 0, 0],
        [101, 100, 103, 102, *[0] * 8],
    ]


def test_padding_changes_no_embedding(minilm):
    torch.manual_seed(0)
    encoder = minilm.MiniLM(2, vocabulary=200, width=32, heads=4, inner=64)
    ids = torch.tensor([[101, 150, 151, 102]])
    longer = torch.nn.functional.pad(ids, (0, 5))
    one, other = (minilm.pooled(encoder(x)[1], x != minilm.PAD) for x in (ids, longer))
    torch.testing.assert_close(one, other)


def test_the_encoder_agrees_with_sentence_transformers(minilm):
    if minilm.folder() is None:
        pytest.skip(f"84 MB that nothing else needs: {minilm.INSTALL}")
    pieces, encoder = minilm.load()
    ids = pieces([SENTENCE], 16)
    assert ids[ids != minilm.PAD].tolist() == PIECES
    with torch.no_grad():
        embedding = minilm.pooled(encoder(ids)[1], ids != minilm.PAD)[0]
    assert embedding[:4].tolist() == pytest.approx(FIRST, abs=2e-5)
