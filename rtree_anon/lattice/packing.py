"""Bit fields: how the codes of one row become one packed key.

Every attribute has a field that is wide enough for its leaves, at the same place for every generalization. The field
holds the id of the leaf's ancestor on the attribute's level, or 0 where the attribute is not part of the set that is
counted. So generalizing an attribute changes one field by a table, and leaving it out clears one field. Fields never
straddle words; most tables need one word of 64 bits. Many keys are an array with a row per word and a column per key.

After the quasi-identifiers come the columns that a privacy model looks at (sensitive values, identities): they are
never generalized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 64


@dataclass(frozen=True)
class Field:
    """Where one column stands in a key."""

    word: int
    shift: int
    bits: int

    @property
    def mask(self) -> int:
        """The bits of the field, before shifting."""
        return (1 << self.bits) - 1


@dataclass(frozen=True)
class Layout:
    """The fields of all columns, in their order."""

    fields: tuple[Field, ...]
    n_words: int

    @classmethod
    def for_sizes(cls, sizes: Sequence[int]) -> Layout:
        """Fields for columns with so many distinct codes each."""
        fields: list[Field] = []
        word = used = 0
        for size in sizes:
            bits = max(int(size) - 1, 0).bit_length()
            if used + bits > WORD_BITS:
                word, used = word + 1, 0
            fields.append(Field(word, used if bits else 0, bits))
            used += bits
        return cls(tuple(fields), word + 1)

    def pack(self, columns: Sequence[NDArray[np.integer]]) -> NDArray[np.uint64]:
        """One key per row of the aligned columns."""
        keys = np.zeros((self.n_words, len(columns[0])), dtype=np.uint64)
        for field, codes in zip(self.fields, columns, strict=True):
            keys[field.word] |= codes.astype(np.uint64) << np.uint64(field.shift)
        return keys

    def column(self, keys: NDArray[np.uint64], position: int) -> NDArray[np.int64]:
        """The codes of one column of packed keys."""
        field = self.fields[position]
        word: NDArray[np.uint64] = keys[field.word]
        return ((word >> np.uint64(field.shift)) & np.uint64(field.mask)).astype(np.int64)

    def bits_of(self, positions: Sequence[int]) -> NDArray[np.uint64]:
        """One word mask per word with all bits of these columns."""
        words = [0] * self.n_words
        for position in positions:
            field = self.fields[position]
            words[field.word] |= field.mask << field.shift
        return np.array(words, dtype=np.uint64)
