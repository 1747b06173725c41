"""Quotes in delimited text: a state machine over bytes that finds quotes that are not closed where they should be.

Readers of CSV are lenient: a quote that is never closed, or that is closed in the middle of a field, silently swallows
the rows up to the next quote. This kernel follows the same rules (a quote opens a field only at its start; a doubled
quote is a quote) and reports the first closing quote that is followed by anything but a delimiter or the end of the
line. It can be called for one block after the other: the state and the record number are carried over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import kernel

FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED = 0, 1, 2, 3

_QUOTE, _CR, _LF = 34, 13, 10


@kernel
def scan_quotes(block: NDArray[np.uint8], delimiter: int, state: NDArray[np.int64]) -> bool:
    """Scans a block; False at the first stray quote.

    `state` is (machine state, records ended, whether the current record has begun, record where the last quote opened)
    and is updated.
    """
    machine, records, begun, opened = state[0], state[1], state[2], state[3]
    fine = True
    for i in range(block.shape[0]):
        byte = block[i]
        if machine == QUOTED:
            if byte == _QUOTE:
                machine = QUOTE_IN_QUOTED
            continue
        if byte == delimiter:
            machine, begun = FIELD_START, 1
        elif byte in (_LF, _CR):
            machine = FIELD_START
            records += begun  # an empty line, or the second half of CR LF, ends no record
            begun = 0
        elif byte == _QUOTE and machine == FIELD_START:
            machine, begun, opened = QUOTED, 1, records
        elif machine == QUOTE_IN_QUOTED:
            if byte != _QUOTE:
                fine = False
                break
            machine = QUOTED
        else:
            machine, begun = PLAIN, 1
    state[0], state[1], state[2], state[3] = machine, records, begun, opened
    return fine
