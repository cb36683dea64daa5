"""How far some number of rows of the lake goes: where a batch that is limited ends."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from fanlog.lake.location import Location
from fanlog.spark.cold import ColdSpans, list_files, read_file
from fanlog.spark.schemas import SEQUENCE

_COUNTED: Final = pa.schema(
    [
        pa.field("partition", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field(SEQUENCE, pa.int64()),
    ]
)


def sequence_within(
    location: Location, wanted: ColdSpans, rows_max: int
) -> tuple[int, dict[int, int]]:
    """Give the last commit up to which there are no more than `rows_max` rows, or just one commit.

    Files are read, a few columns of them, until there are rows enough. If there are fewer in all,
    it is the last commit that is wanted.

    Returns:
        The sequence, and the offset behind the last row of each partition up to there.
    """
    assert wanted.to_sequence is not None
    files = list_files(location, wanted)
    tables: list[pa.Table] = []
    rows = 0
    is_cut = False
    for number, file in enumerate(files):
        found = pa.Table.from_batches(read_file(location, file, wanted, _COUNTED), _COUNTED)
        tables.append(found)
        rows += found.num_rows
        later = files[number + 1].sequence_first if number + 1 < len(files) else None
        if rows > rows_max and later is not None:
            # Files may overlap: those that begin before the cut have rows before it, too.
            sequences = np.sort(pa.concat_tables(tables)[SEQUENCE].to_numpy())
            is_cut = later > sequences[rows_max]
        if is_cut:
            break
    if rows <= rows_max:
        table = pa.concat_tables(tables) if tables else _COUNTED.empty_table()
        return wanted.to_sequence, _ends(table)
    table = pa.concat_tables(tables)
    sequences = np.sort(table[SEQUENCE].to_numpy())
    first_beyond = sequences[rows_max]
    before = sequences[sequences < first_beyond]
    last = int(before[-1]) if len(before) else int(first_beyond)
    return last, _ends(table.filter(pa.array(table[SEQUENCE].to_numpy() <= last)))


def _ends(table: pa.Table) -> dict[int, int]:
    ends = table.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    return {row["partition"]: row["offset_max"] + 1 for row in ends}
