"""Sentences that people rated, and what the frozen blocks of an encoder make of them.

The ratings are those of Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment
Analysis of Social Media Text", ICWSM 2014: twenty people rated each sentence from −4 to 4. The
source distribution of vaderSentiment has them; the wheel does not.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import minilm
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

ARCHIVE = "vaderSentiment-3.3.2.tar.gz"
DOWNLOAD = "pip download --no-deps --no-binary :all: vaderSentiment==3.3.2"
PUBLIC = "nytEditorialSnippets"  # printed in a newspaper; tweets and reviews are the clients'
CLEAR = 0.5  # sentences with a mean rating nearer to 0 are neither positive nor negative
TEST = 2_000
LENGTH = 40  # word pieces of a sentence; 90 % have no more
PROGRESS = Console(stderr=True)
_AT_A_TIME = 256

POSITIVE, NEGATIVE = ("good", "lovely", "bright", "kind"), ("bad", "ugly", "dull", "rude")
THINGS = ("film", "phone", "song", "book", "day", "meal")


@dataclass(frozen=True)
class Sentences:
    """Embeddings of sentences, the states they come from, and whose they are.

    ``hidden`` (n, LENGTH, width) is what goes into the last block, 0 where a sentence is over.
    """

    hidden: NDArray[np.float16]
    embeddings: NDArray[np.float32]
    positive: NDArray[np.bool_]
    public: NDArray[np.int64]
    clients: NDArray[np.int64]
    test: NDArray[np.int64]


def rated(folder: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.bool_]]:
    """Sentences, their mean ratings, and which are public, from the archive in a folder."""
    file = folder / ARCHIVE
    if not file.exists():
        raise SystemExit(f"{file} is not there: {DOWNLOAD}")
    texts, ratings, public = [], [], []
    with tarfile.open(file) as outer:
        place = next(name for name in outer.getnames() if name.endswith("ICWSM_2014.tar.gz"))
        inner = io.BytesIO(_read(outer, place))
    with tarfile.open(fileobj=inner) as archive:
        for name in archive.getnames():
            lines = _read(archive, name).decode() if name.endswith("_GroundTruth.txt") else ""
            for line in lines.splitlines():
                _, rating, text = line.split("\t")
                texts.append(text)
                ratings.append(float(rating))
                public.append(PUBLIC in name)
    return texts, np.array(ratings), np.array(public)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    return b"" if file is None else file.read()


def made_up(n: int) -> tuple[list[str], NDArray[np.float64], NDArray[np.bool_]]:
    """The same of sentences that nobody wrote, for a trial without any package."""
    rng = np.random.default_rng(0)
    positive = rng.integers(0, 2, n)
    words = [rng.choice(POSITIVE if p else NEGATIVE) for p in positive]
    texts = [f"The {rng.choice(THINGS)} was {word}!" for word in words]
    return texts, 2.0 * positive - 1, rng.random(n) < 0.2


def stand_in() -> tuple[minilm.WordPiece, minilm.MiniLM]:
    """A small encoder with random weights that knows the words of `made_up`."""
    words = sorted({"the", "was", "!", *POSITIVE, *NEGATIVE, *THINGS})
    vocabulary = [""] * (minilm.END + 1) + words
    torch.manual_seed(0)
    encoder = minilm.MiniLM(2, vocabulary=len(vocabulary), width=32, heads=4, inner=64)
    return minilm.WordPiece(vocabulary), encoder.requires_grad_(False)


def encoded(
    told: tuple[list[str], NDArray[np.float64], NDArray[np.bool_]],
    parts: tuple[minilm.WordPiece, minilm.MiniLM],
    folder: Path,
    tests: int,
) -> Sentences:
    """Pass all clear sentences through the encoder once; states and embeddings stay in a folder."""
    clear = np.flatnonzero(abs(told[1]) >= CLEAR)
    texts, ratings, public = [told[0][i] for i in clear], told[1][clear], told[2][clear]
    private = np.random.default_rng(0).permutation(np.flatnonzero(~public))
    files = folder / "hidden.npy", folder / "embeddings.npy"
    if not all(file.exists() for file in files):
        _encode(parts[0](texts, LENGTH), parts[1], *files)
    hidden, embeddings = (np.load(file, mmap_mode="r") for file in files)
    test, clients = private[:tests], private[tests:]
    known = np.flatnonzero(public)
    return Sentences(hidden, np.array(embeddings), ratings > 0, known, clients, test)


@torch.no_grad()
def _encode(ids: torch.Tensor, encoder: minilm.MiniLM, states: Path, means: Path) -> None:
    lengths = (ids != minilm.PAD).sum(1)
    order, width = lengths.argsort(), encoder.words.embedding_dim
    hidden = np.lib.format.open_memmap(
        states.with_suffix(".part"), "w+", np.float16, (len(ids), LENGTH, width)
    )
    embeddings = np.empty((len(ids), width), np.float32)
    parts = order.split(_AT_A_TIME)  # of about one length
    for rows in track(parts, "encoding sentences", console=PROGRESS):
        shown = ids[rows, : int(lengths[rows].max())]
        there = shown != minilm.PAD
        before, after = encoder(shown)
        hidden[rows, : shown.shape[1]] = (before * there[:, :, None]).numpy()
        embeddings[rows] = minilm.pooled(after, there).numpy()
    hidden.flush()
    np.save(means, embeddings)
    states.with_suffix(".part").rename(states)
