"""Texts: strings as they are, for a model that reads them itself, and hashed word n-grams for ours."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.labels import Names, named, plain
from fedol.data.likeness import Likeness, Words
from fedol.data.samples import Index, Preprocessing, Samples, Shape, register
from fedol.errors import InputError
from fedol.text import is_text, printable

HASHES = 1 << 20  # what n-grams are hashed to
FEATURES = 4096  # at most: the n-grams that the most public texts have, two or more of them
MOST = 1024  # n-grams of a text; what comes after is not read
NOTHING = -1  # where a text has fewer
SHOWN = 60  # characters of a text in a report
WORD = re.compile(r"\w+")


def hashed(text: str) -> npt.NDArray[np.int32]:
    """Words and pairs of neighbours, in lower case, as CRC-32 of their UTF-8 modulo ``HASHES``, in order."""
    words = WORD.findall(text.lower())[: MOST // 2]
    grams = [*words, *(f"{a} {b}" for a, b in pairwise(words))]
    return np.array([crc32(gram.encode("utf-8", "surrogatepass")) % HASHES for gram in grams], np.int32)


@register
@dataclass(frozen=True)
class TfIdf(Preprocessing):
    """Each n-gram by how often it is in the text and how rare it is in the public ones, (1 + ln tf) · idf.

    A row is scaled to the length √n of its n n-grams, so that what counts is near 1 as a network likes it.
    """

    kind: ClassVar[str] = "texts"
    grams: tuple[int, ...]  # as they are hashed, in ascending order
    idf: tuple[float, ...]
    text: tuple[str, ...] = ()  # the columns of files that texts stand in

    def __call__(self, batch: Tensor) -> Tensor:
        """int32 [n, n-grams] -> float32 [n, features]."""
        feature, idf = (table.to(batch.device) for table in self._tables)
        places = feature[batch.long()]
        counts = idf.new_zeros(batch.shape[0], len(self.idf) + 1)
        counts = counts.scatter_add(1, places, torch.ones_like(places, dtype=counts.dtype))[:, :-1]
        weights = torch.where(counts > 0, 1 + counts.clamp_min(1).log(), 0) * idf
        active = (counts > 0).sum(1, keepdim=True).sqrt()
        length: Tensor = weights.square().sum(1, keepdim=True).sqrt()
        return weights * active / length.clamp_min(1e-6)

    @cached_property
    def _tables(self) -> tuple[Tensor, Tensor]:
        """The feature of every hash, one beyond the last where it has none, as has ``NOTHING``; and the weights."""
        feature = torch.full((HASHES + 1,), len(self.grams))
        feature[list(self.grams)] = torch.arange(len(self.grams))
        return feature, torch.tensor(self.idf)

    def prepared(self, shape: Shape) -> Shape:
        """Its features."""
        return (len(self.idf),)

    def blank(self, shape: Shape) -> Tensor:
        """Two texts without a word, as long as any."""
        return torch.full((2, MOST), NOTHING, dtype=torch.int32)

    def header(self) -> dict[str, Any]:
        """Which n-grams count, and how rare each is."""
        return {"kind": self.kind, "grams": list(self.grams), "idf": list(self.idf), "text": list(self.text)}

    def metadata(self) -> dict[str, Any]:
        """How a text becomes the numbers that an exported model takes."""
        return {
            "input": f"int32 [N, {MOST}]: of the lower-case words (\\w+) and pairs of neighbours with one space "
            f"between, CRC-32 of their UTF-8 modulo {HASHES}; {NOTHING} after the last"
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """A weight per feature."""
        grams, idf, text = header["grams"], header["idf"], header["text"]
        if not (isinstance(grams, list) and isinstance(idf, list) and shape == (len(grams),) == (len(idf),)):
            raise InputError("its features are not those of its words")
        if not all(type(gram) is int and 0 <= gram < HASHES for gram in grams) or sorted(set(grams)) != grams:
            raise InputError("its words make no sense")
        if not all(type(value) in (int, float) and 0 <= value < 1e6 for value in idf):
            raise InputError("the weights of its words make no sense")
        if not (isinstance(text, list) and all(isinstance(column, str) and is_text(column) for column in text)):
            raise InputError("the columns of its texts make no sense")
        return cls(tuple(grams), tuple(map(float, idf)), tuple(text))

    def taken(self, values: Any) -> Samples:
        """Strings, too."""
        return values if isinstance(values, Samples) else Texts.of(values, "the texts")


@dataclass(frozen=True, eq=False)
class Texts(Samples):
    """Strings in memory."""

    kind: ClassVar[str] = "texts"
    members: ClassVar[tuple[str, ...]] = ("lengths", "letters")
    values: npt.NDArray[np.object_]
    text: tuple[str, ...] = ()  # the columns of files that they stand in
    label: Names = ()  # what these call the columns of the labels

    @classmethod
    def of(cls, values: Any, where: str, text: tuple[str, ...] = (), label: Names = ()) -> Texts:
        """Strings, none of them empty."""
        strings = np.array(list(values), dtype=object)
        for place, value in enumerate(strings):
            if not isinstance(value, str) or not value.strip():
                what = "is empty" if isinstance(value, str) or value is None else "is no text"
                raise InputError(f"{where}, row {place + 1}: the text {what}; fill it in or leave the row out.")
        return cls(strings, text, label)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> Shape:
        """What a text's n-grams are hashed to, however many it has."""
        return (HASHES,)

    @property
    def fingerprint(self) -> str:
        """Of the texts in their order."""
        return hashlib.sha256(json.dumps(self.values.tolist()).encode()).hexdigest()

    def take(self, index: Index) -> Texts:
        """These texts."""
        return replace(self, values=self.values[index if isinstance(index, slice) else np.asarray(index)])

    def joined(self, others: Texts) -> Texts:
        """Both."""
        return replace(self, values=np.concatenate([self.values, others.values]))

    @cached_property
    def _grams(self) -> list[npt.NDArray[np.int32]]:
        return [hashed(text) for text in self.values]

    def batch(self, index: Tensor | slice) -> Tensor:
        """int32 [n, as many as the longest has]: each text's n-grams, then ``NOTHING``."""
        rows = [
            self._grams[row] for row in np.arange(len(self))[index if isinstance(index, slice) else index.cpu().numpy()]
        ]
        table = np.full((len(rows), max([1, *map(len, rows)])), NOTHING, np.int32)
        for row, grams in zip(table, rows, strict=True):
            row[: len(grams)] = grams
        return torch.from_numpy(table)

    def array(self) -> npt.NDArray[np.object_]:
        """The strings."""
        return self.values

    def floats(self) -> npt.NDArray[np.float32]:
        """There are none without a preprocessing."""
        raise InputError("A model of another framework takes texts as strings: give one that is called with them.")

    def rows(self, named: bool = False) -> Any:
        """The strings, for a model that begins with words."""
        return self.values

    def likenesses(self, public: Texts) -> list[Likeness]:
        """By their letters."""
        return [Words()]

    def captions(self) -> list[str]:
        """How each begins."""
        return [printable(text, SHOWN) for text in self.values]

    def fit(self, public: Texts | None = None) -> TfIdf:
        """To the public texts, where there are some: then it is the same at every site."""
        texts = self if public is None else public
        holding = np.zeros(HASHES, np.int64)  # how many texts have it
        for grams in texts._grams:
            holding[np.unique(grams)] += 1
        common = np.flatnonzero(holding > 1) if (holding > 1).any() else np.flatnonzero(holding)
        chosen = np.sort(common[np.argsort(-holding[common], kind="stable")[:FEATURES]])
        idf = np.log((1 + len(texts)) / (1 + holding[chosen])) + 1
        return TfIdf(tuple(chosen.tolist()), tuple(idf.tolist()), texts.text)

    def packed(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """To be kept: the columns, how many bytes each text has, and these one after the other."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in self.values]
        lengths = np.array([len(text) for text in encoded], np.int64)
        return {"text": self.text, "label": plain(self.label)}, {
            "lengths": lengths,
            "letters": np.frombuffer(b"".join(encoded), np.uint8),
        }

    @classmethod
    def unpacked(cls, about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Texts:
        """What ``packed`` gave, or an error that says what makes no sense: it may be a stranger's."""
        lengths, letters = arrays["lengths"], arrays["letters"]
        if lengths.dtype != np.int64 or letters.dtype != np.uint8 or lengths.ndim != 1 or (lengths < 1).any():
            raise InputError("its texts make no sense")
        ends = np.cumsum(lengths)
        if ends[-1] != letters.size or (ends < 1).any():
            raise InputError("its texts are not as long as they should be")
        whole = letters.tobytes()
        texts = [
            whole[end - length : end].decode("utf-8", "surrogatepass")
            for end, length in zip(ends, lengths, strict=True)
        ]
        label = tuple(map(str, named(about["label"])))
        return cls.of(texts, "the public texts", tuple(map(str, about["text"])), label)
