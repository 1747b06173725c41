"""What a load has to learn about a column before its first row can be coded: the type of text, the attribute's coding.

A column of text is given its type by all of its rows, and only then could a binder look at it: a second pass. So a
learner guesses the type from what it has seen so far and binds to that along the way; where the guess holds to the end
(it nearly always does) no second pass is made.
"""

from __future__ import annotations

import pyarrow as pa

from rtree_anon.errors import InputError
from rtree_anon.io.binding import Binder, CategoryBinder, make_binder
from rtree_anon.io.cells import CellError, Origin
from rtree_anon.io.column_types import texts_of
from rtree_anon.io.conforming import conform
from rtree_anon.io.text_types import Purpose, TextColumn
from rtree_anon.io.types import default_attribute
from rtree_anon.schema import Attribute, Boolean, Categorical


def is_settled(attribute: Attribute | str) -> bool:
    """Whether no further data can change the attribute: what does not fit it is refused when it is coded."""
    if isinstance(attribute, str) or not attribute.bound:
        return False
    if isinstance(attribute, Categorical):
        return not attribute.allow_new
    return isinstance(attribute, Boolean) or not attribute.grow


class ColumnLearner:
    """Looks at one column, batch by batch. `attribute` is None where the column is only carried (and is text)."""

    def __init__(
        self,
        name: str,
        attribute: Attribute | str | None,
        data_type: pa.DataType,
        purpose: Purpose | None,
        source: str,
        limit_bytes: int,
    ) -> None:
        self.name, self._attribute, self._purpose, self._source = name, attribute, purpose, source
        self._limit_bytes = limit_bytes  # for the values of a category
        self._text = None if purpose is None else TextColumn(name)
        self._type = data_type  # that of the column, as far as it is known
        self._binder: Binder | None = None
        self._guesses = purpose is not None and attribute is not None
        self._began_with_missing = False
        if purpose is None:
            self._start(data_type)

    def observe(self, column: pa.Array, origin: Origin) -> None:
        """See a batch of the column."""
        if self._text is None:
            assert self._binder is not None
            self._binder.observe(column, origin)
            return
        texts = texts_of(column)
        self._text.observe(texts, origin)
        if self._guesses:
            self._observe_as_guessed(texts, origin)

    def settle(self) -> bool:
        """All batches were seen; False where the column must be looked at again (`look_again`)."""
        if self._text is None or self._purpose is None:
            return True
        data_type = self._text.decide(self._purpose)
        guess_held = self._guesses and self._binder is not None and data_type == self._type
        self._type = data_type
        if self._attribute is None or guess_held:
            return True
        self._start(data_type)
        return bool(pa.types.is_null(data_type))

    def look_again(self, column: pa.Array, origin: Origin) -> None:
        """See a batch again, now that the type is known; the column is of that type."""
        assert self._binder is not None
        self._binder.observe(column, origin)

    @property
    def data_type(self) -> pa.DataType:
        """The column's type, once it is settled."""
        return self._type

    @property
    def has_missing(self) -> bool:
        """Whether a value was missing."""
        return self._began_with_missing or self._binder is None or self._binder.has_missing

    @property
    def asked(self) -> Attribute | None:
        """The attribute that is to be bound, as far as it is known."""
        return None if self._binder is None else self._binder.attribute

    def bound(self) -> Attribute:
        """The bound attribute."""
        assert self._binder is not None
        return self._binder.finish()

    def _observe_as_guessed(self, texts: pa.Array, origin: Origin) -> None:
        assert self._text is not None and self._purpose is not None
        try:
            if self._binder is None:
                guess = self._text.decide(self._purpose)
                if pa.types.is_null(guess):
                    self._began_with_missing = True
                    return  # nothing but missing values so far
                self._start(guess)
            assert self._binder is not None
            self._binder.observe(conform(texts, self._type), origin)
        except (CellError, InputError):  # a wrong guess, or a real problem: a second look will tell
            self._guesses = False

    def _start(self, data_type: pa.DataType) -> None:
        if self._attribute is None:
            return
        attribute = self._attribute
        if isinstance(attribute, str):
            attribute = default_attribute(self.name, data_type)
        self._type = data_type
        self._binder = make_binder(attribute, data_type, self._source)
        if isinstance(self._binder, CategoryBinder):
            self._binder.limit_bytes = self._limit_bytes
