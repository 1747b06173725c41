"""Pages of the directory: which bundle a row is in, by id, as ranges of ids or as one number for each id.

A page is a sequence of 64-bit words, little-endian, in one of two forms, whichever holds more:

    ranges   0        number of ranges n
             1 …      the first id of every range (n words), then of every range ids (low half) and bundle (high half)
    dense    0        number of ids n, plus 2**32
             1        the first id; entry i is for the id `first + i`
             2        bits of an entry
             3 …      the entries, packed without gaps: 0 where there is no such row, else the bundle's name + 1

Ranges are what a bulk load leaves: ids in leaf order. Rows that come by inserts have consecutive ids all over the tree,
so each would be a range of 16 bytes; as entries they take a byte or two.

Inside the kernels everything is ranges: ascending, disjoint, first[i] .. end[i]-1 in the bundle name[i].
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.bundles import bits_of
from rtree_anon.kernels.jit import kernel

_LOW = (1 << 32) - 1
_DENSE = 1 << 32
DENSE_WORDS = 3  # before the entries
_MOST_ID = 1 << 62


@kernel
def page_is_sound(page):
    """Whether words that were read can be a page: everything below relies on it."""
    n_words = page.shape[0]
    if n_words < 1:
        return False
    n = np.int64(page[0] & np.uint64(_LOW))
    form = page[0] >> np.uint64(32)
    if form == 1:
        if n < 1 or n_words < DENSE_WORDS:
            return False
        first, bits = np.int64(page[1]), np.int64(page[2])
        if not (0 <= first <= _MOST_ID) or not (1 <= bits <= 33):
            return False
        return n_words == DENSE_WORDS + ((n * bits + 63) >> 6)
    if form != 0 or n < 1 or n_words != 1 + 2 * n:
        return False
    end = np.int64(0)
    for i in range(n):
        first = np.int64(page[1 + i])
        n_ids = np.int64(page[1 + n + i] & np.uint64(_LOW))
        if first < end or first > _MOST_ID or n_ids < 1:
            return False
        end = first + n_ids
    return True


@kernel
def dense_entry(page, i, bits, mask):
    """Entry i of a dense page: the bundle's name, -1 for none."""
    position = i * bits
    word = DENSE_WORDS + (position >> 6)
    shift = position & 63
    entry = page[word] >> np.uint64(shift)
    if shift + bits > 64:
        entry |= page[word + 1] << np.uint64(64 - shift)
    return np.int64(entry & mask) - 1


@kernel
def most_ranges(page):
    """No fewer ranges than a sound page has."""
    return np.int64(page[0] & np.uint64(_LOW))


@kernel
def page_ranges(page, first, end, name, at):
    """Write the ranges of a sound page to first[at:], end[at:], name[at:]; the place behind the last."""
    n = np.int64(page[0] & np.uint64(_LOW))
    if page[0] >> np.uint64(32) == 0:
        for i in range(n):
            about = page[1 + n + i]
            first[at] = np.int64(page[1 + i])
            end[at] = first[at] + np.int64(about & np.uint64(_LOW))
            name[at] = np.int64(about >> np.uint64(32))
            at += 1
        return at
    lowest, bits = np.int64(page[1]), np.int64(page[2])
    mask = ~np.uint64(0) >> np.uint64(64 - bits)
    last = np.int64(-1)
    for i in range(n):
        bundle = dense_entry(page, i, bits, mask)
        if bundle < 0:
            last = bundle
            continue
        if bundle == last:
            end[at - 1] += 1
            continue
        first[at] = lowest + i
        end[at] = lowest + i + 1
        name[at] = last = bundle
        at += 1
    return at


@kernel
def find_on_page(page, ids, found):
    """The bundle of each of these ids (ascending) on a sound page, -1 where there is none."""
    n = np.int64(page[0] & np.uint64(_LOW))
    if page[0] >> np.uint64(32) == 1:
        lowest, bits = np.int64(page[1]), np.int64(page[2])
        mask = ~np.uint64(0) >> np.uint64(64 - bits)
        for i in range(ids.shape[0]):
            place = ids[i] - lowest
            found[i] = dense_entry(page, place, bits, mask) if 0 <= place < n else np.int64(-1)
        return
    for i in range(ids.shape[0]):
        at, behind = 0, n  # ranges that begin at or before the id
        while at < behind:
            middle = (at + behind) >> 1
            if np.int64(page[1 + middle]) <= ids[i]:
                at = middle + 1
            else:
                behind = middle
        found[i] = -1
        if at > 0:
            about = page[n + at]
            if ids[i] - np.int64(page[at]) < np.int64(about & np.uint64(_LOW)):
                found[i] = np.int64(about >> np.uint64(32))


@kernel
def merge_changes(first, end, name, n, ids, names, new_first, new_end, new_name):
    """Ranges first[:n] … with changes: the row ids[i] (ascending) is in names[i] now, or nowhere (-1).

    The new ranges, neighbours in one bundle as one, at most n + 2 * len(ids); their number.
    """
    at = np.int64(0)
    n_changes = ids.shape[0]
    c = 0
    r = 0
    begin = first[0] if n > 0 else np.int64(0)  # what is left of range r begins here
    while r < n or c < n_changes:
        if r < n and (c == n_changes or begin < ids[c]):
            low, bundle = begin, name[r]
            high = end[r] if c == n_changes else min(end[r], ids[c])
            begin = high
        else:
            low, bundle = ids[c], names[c]
            high = low + 1
            c += 1
            if r < n and begin < high:
                begin = high
        if r < n and begin >= end[r]:
            r += 1
            if r < n:
                begin = first[r]
        if bundle < 0:
            continue
        if at > 0 and new_end[at - 1] == low and new_name[at - 1] == bundle:
            new_end[at - 1] = high
        else:
            new_first[at] = low
            new_end[at] = high
            new_name[at] = bundle
            at += 1
    return at


@kernel
def entries_fit(page, ids, names):
    """Whether changes (ids ascending) of a sound page can be made in place: it is dense, has entries for all of them
    that are wide enough, and still begins and ends with an id that is somewhere.
    """
    if page[0] >> np.uint64(32) != 1:
        return False
    n = np.int64(page[0] & np.uint64(_LOW))
    lowest, bits = np.int64(page[1]), np.int64(page[2])
    most = np.int64(~np.uint64(0) >> np.uint64(64 - bits)) - 1  # name
    last = ids.shape[0] - 1
    if ids[0] < lowest or ids[last] >= lowest + n:
        return False
    if (ids[0] == lowest and names[0] < 0) or (ids[last] == lowest + n - 1 and names[last] < 0):
        return False
    n_wide = np.int64(0)
    for i in range(ids.shape[0]):
        n_wide += names[i] > most
    return n_wide == 0


@kernel
def put_entries(page, ids, names):
    """Make changes that fit: the entry of ids[i] becomes names[i], or none (-1)."""
    lowest, bits = np.int64(page[1]), np.int64(page[2])
    mask = ~np.uint64(0) >> np.uint64(64 - bits)
    for i in range(ids.shape[0]):
        entry = np.uint64(names[i] + 1)
        position = (ids[i] - lowest) * bits
        word = DENSE_WORDS + (position >> 6)
        shift = position & 63
        page[word] = (page[word] & ~(mask << np.uint64(shift))) | (entry << np.uint64(shift))
        if shift + bits > 64:
            over = np.uint64(64 - shift)
            page[word + 1] = (page[word + 1] & ~(mask >> over)) | (entry >> over)


@kernel
def page_end(page):
    """The id behind the last one of a sound page."""
    n = np.int64(page[0] & np.uint64(_LOW))
    if page[0] >> np.uint64(32) == 1:
        return np.int64(page[1]) + n
    return np.int64(page[n]) + np.int64(page[2 * n] & np.uint64(_LOW))


@kernel
def spread_page(page, lowest, names):
    """names[id - lowest] becomes the bundle of every id of a sound page; -1 where it says that there is none."""
    n = np.int64(page[0] & np.uint64(_LOW))
    if page[0] >> np.uint64(32) == 1:
        at, bits = np.int64(page[1]) - lowest, np.int64(page[2])
        mask = ~np.uint64(0) >> np.uint64(64 - bits)
        place = DENSE_WORDS
        word = page[place]
        used = 0
        for i in range(n):
            entry = word >> np.uint64(used)
            used += bits
            if used >= 64:
                used -= 64
                place += 1
                word = page[place] if place < page.shape[0] else np.uint64(0)
                if used > 0:
                    entry |= word << np.uint64(bits - used)
            names[at + i] = np.int64(entry & mask) - 1
        return
    for i in range(n):
        about = page[1 + n + i]
        at = np.int64(page[1 + i]) - lowest
        for place in range(at, at + np.int64(about & np.uint64(_LOW))):
            names[place] = np.int64(about >> np.uint64(32))


@kernel
def count_ranges(names):
    """How many ranges ids are whose bundles are `names`, nowhere where that is -1."""
    n = np.int64(0)
    last = np.int64(-1)
    for i in range(names.shape[0]):
        bundle = np.int64(names[i])
        n += bundle != last and bundle >= 0
        last = bundle
    return n


@kernel
def fill_dense_pages(names, lowest_id, bits, pages, lengths, lowest):
    """Write the ids lowest_id, lowest_id + 1, …, in bundles `names` (-1: nowhere), to dense pages; how many these are.

    pages[p] is zero before; lengths[p] are the bytes that it takes, lowest[p] is its first id. Pages begin and end with
    an id that is somewhere.
    """
    n_dense = ((pages.shape[1] - DENSE_WORDS) << 6) // bits
    behind = names.shape[0]
    p = 0
    at = 0
    while True:
        while at < behind and names[at] < 0:
            at += 1
        if at == behind:
            return p
        end = min(at + n_dense, behind)
        while names[end - 1] < 0:
            end -= 1
        page = pages[p]
        page[0] = np.uint64(end - at) | np.uint64(_DENSE)
        page[1] = np.uint64(lowest_id + at)
        page[2] = np.uint64(bits)
        place = DENSE_WORDS
        word = np.uint64(0)
        used = 0
        for i in range(at, end):
            entry = np.uint64(np.int64(names[i]) + 1)
            word |= entry << np.uint64(used)
            used += bits
            if used >= 64:
                page[place] = word
                place += 1
                used -= 64
                word = entry >> np.uint64(bits - used) if used > 0 else np.uint64(0)
        if used > 0:
            page[place] = word
            place += 1
        lengths[p] = 8 * place
        lowest[p] = lowest_id + at
        p += 1
        at = end


@kernel
def fill_pages(first, end, name, n, fill, pages, lengths, lowest):
    """Write ranges to pages[p] (zeros before), each in the form that holds more; the number of pages.

    lengths[p] are the bytes that page p takes, lowest[p] is its first id. `fill` is how many ranges a page of ranges
    gets where one page is not enough; no page gets fewer but the last, so that n // fill + 1 pages are enough.
    """
    n_words = pages.shape[1]
    capacity = (n_words - 1) // 2
    most_name = np.int64(0)
    for i in range(n):
        most_name = max(most_name, name[i])
    bits = np.int64(bits_of(np.uint64(most_name + 1)))
    n_dense = ((n_words - DENSE_WORDS) << 6) // bits
    p = 0
    i = 0
    begin = first[0] if n > 0 else np.int64(0)  # what is left of range i begins here
    while i < n:
        n_ranges = n - i if n - i <= capacity else min(fill, capacity)
        limit = begin + n_dense
        lowest[p] = begin
        page = pages[p]
        if i + n_ranges < n:
            dense = first[i + n_ranges] < limit
        else:
            n_left = end[n - 1] - begin
            dense = n_left <= n_dense and DENSE_WORDS + ((n_left * bits + 63) >> 6) < 1 + 2 * n_ranges
        if dense:
            page[1] = np.uint64(begin)
            page[2] = np.uint64(bits)
            last = begin
            while i < n and begin < limit:
                high = min(end[i], limit)
                for id_ in range(begin, high):
                    entry = np.uint64(name[i] + 1)
                    position = (id_ - lowest[p]) * bits
                    word = DENSE_WORDS + (position >> 6)
                    shift = position & 63
                    page[word] |= entry << np.uint64(shift)
                    if shift + bits > 64:
                        page[word + 1] |= entry >> np.uint64(64 - shift)
                last = high
                begin = high
                if begin == end[i]:
                    i += 1
                    if i < n:
                        begin = first[i]
            n_ids = last - lowest[p]
            page[0] = np.uint64(n_ids) | np.uint64(_DENSE)
            lengths[p] = 8 * (DENSE_WORDS + ((n_ids * bits + 63) >> 6))
        else:
            page[0] = np.uint64(n_ranges)
            for j in range(n_ranges):
                low = begin if j == 0 else first[i + j]
                page[1 + j] = np.uint64(low)
                page[1 + n_ranges + j] = np.uint64(end[i + j] - low) | (np.uint64(name[i + j]) << np.uint64(32))
            lengths[p] = 8 * (1 + 2 * n_ranges)
            i += n_ranges
            if i < n:
                begin = first[i]
        p += 1
    return p
