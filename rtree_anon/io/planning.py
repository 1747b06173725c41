"""What has to be learned about a source's columns before they can be coded, and from where: statistics, or a pass."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from rtree_anon.errors import InputError
from rtree_anon.io.cells import located
from rtree_anon.io.column_types import stated_types, typed
from rtree_anon.io.conforming import conform
from rtree_anon.io.key_column import longest_value
from rtree_anon.io.learning import ColumnLearner, is_settled
from rtree_anon.io.parquet_statistics import ParquetStatistics
from rtree_anon.io.sampling import Reservoir
from rtree_anon.io.sources import Source
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.io.stored_types import stored_type
from rtree_anon.io.stream_spool import StreamSpool
from rtree_anon.io.text_types import Purpose
from rtree_anon.io.types import plain_type
from rtree_anon.schema import Attribute, Categorical, Schema


class LoadPlan:
    """The columns of a load, and what is still to be learned of them."""

    def __init__(self, source: Source, schema: Schema, stored: StoredColumns | None, category_bytes: int) -> None:
        self._source, self._schema, self._category_bytes = source, schema, category_bytes
        self._types, self._purposes = stated_types(source, schema, schema.quasi_names)
        fields = source.fields(schema.column_names)
        # columns of text that are parsed to what their attribute says already
        self._parsed = {
            name: kind for name, kind in self._types.items() if plain_type(kind) != plain_type(fields.field(name).type)
        }
        self._carried = {name: stored_type(fields.field(name).type, source.name, name) for name in schema.payload_names}
        if stored is None and source.untyped:
            self._purposes |= dict.fromkeys(schema.payload_names, Purpose.CARRIED)
        attributes = zip(schema.quasi_names, schema.quasi, strict=True)
        unsettled = {name: attribute for name, attribute in attributes if not is_settled(attribute)}
        self._learners = {name: self._learner(name, attribute) for name, attribute in unsettled.items()}
        self._learners |= {name: self._learner(name, None) for name in self._carried if name in self._purposes}
        self._waiting = set(self._learners)  # columns that a pass has to be made for
        # A key that may turn out to be no whole number is stored as it is: there must be room for the longest.
        key = schema.key
        has_length = key is not None and not pa.types.is_integer(self._carried[key])
        self._key = key if has_length and (stored is None or stored.key_column is not None) else None
        self.longest_key = 0  # in bytes

    def use_statistics(self, statistics: ParquetStatistics) -> None:
        """Learn from Parquet's statistics whatever they can tell."""
        for name, learner in self._learners.items():
            if name in self._purposes or isinstance(learner.asked, Categorical):
                continue
            observations = statistics.observations(name, self._types[name])
            try:
                for column, origin in observations or ():
                    learner.observe(column, origin)
            except InputError:  # the values themselves will show whether it is theirs or the statistics' fault
                self._learners[name] = self._learner(name, self._attribute(name))
                continue
            if observations is not None:
                self._waiting.discard(name)

    def learn(self, reservoir: Reservoir | None, spool: StreamSpool | None) -> int:
        """Make the pass, along with a sample and a spool where they are wanted; the number of rows that it met."""
        if spool is not None:
            names = list(self._schema.column_names)
        else:
            wanted = self._waiting | (set() if reservoir is None else set(self._schema.quasi_names))
            wanted = wanted if self._key is None else wanted | {self._key}
            names = [name for name in self._schema.column_names if name in wanted]
        if not names:
            return 0
        n_rows = 0
        for piece in self._source.pieces(names):
            n_rows += piece.batch.num_rows
            for name in names:
                if name in self._waiting:
                    column = piece.batch.column(name)
                    with located(piece.origin, name):
                        column = conform(column, self._parsed[name]) if name in self._parsed else column
                    self._learners[name].observe(column, piece.origin)
            if self._key is not None:
                self.longest_key = max(self.longest_key, longest_value(piece.batch.column(self._key)))
            if reservoir is not None:
                reservoir.observe(piece.batch)
            if spool is not None:
                spool.keep(piece.batch)
        if spool is not None:
            spool.finish()
        return n_rows

    def learn_again(self, source: Source) -> None:
        """The second pass, over columns of text whose type was not what it seemed at first."""
        again = [name for name, learner in self._learners.items() if not learner.settle()]
        types = {name: self._learners[name].data_type for name in again}
        for piece in source.pieces(again) if again else ():
            piece = typed(piece, types)
            for name in again:
                self._learners[name].look_again(piece.batch.column(name), piece.origin)

    def bound_schema(self) -> Schema:
        """The schema with what was learned."""
        pairs = zip(self._schema.quasi_names, self._schema.quasi, strict=True)
        learned = [self._learners[name].bound() if name in self._learners else known for name, known in pairs]
        return replace(self._schema, quasi=tuple(learned))

    def may_have_missing(self, statistics: ParquetStatistics | None) -> list[bool]:
        """For every quasi-identifier whether values may be missing; where nobody looked, they may."""
        stated = (lambda name: True) if statistics is None else statistics.may_have_missing
        names = self._schema.quasi_names
        return [self._learners[name].has_missing if name in self._learners else stated(name) for name in names]

    def carried_types(self) -> dict[str, pa.DataType]:
        """The types of the carried columns."""
        learned = {name: learner.data_type for name, learner in self._learners.items() if name in self._carried}
        return self._carried | learned

    def parsed_types(self) -> dict[str, pa.DataType]:
        """The quasi-identifiers that come as text and have to be parsed, with their types."""
        learned = [name for name in self._types if name in self._purposes]
        return self._parsed | {name: self._learners[name].data_type for name in learned}

    def _attribute(self, name: str) -> Attribute | str:
        return self._schema.quasi[self._schema.quasi_names.index(name)]

    def _learner(self, name: str, attribute: Attribute | str | None) -> ColumnLearner:
        data_type = self._types[name] if name in self._types else self._carried[name]
        purpose = self._purposes.get(name)
        return ColumnLearner(name, attribute, data_type, purpose, self._source.name, self._category_bytes)
