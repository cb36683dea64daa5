from __future__ import annotations

from fanlog.lake import tables
from fanlog.lake.tables import MESSAGES
from fanlog.log.memory import MemoryLog
from fanlog.testing.archiver import Archiver, ArchiveReport
from lake.logs import publish, topic_of


async def test_a_log_is_archived_step_by_step(folder):
    log = MemoryLog()
    archiver = Archiver(folder, log, topic_of)
    publish(log, 5)
    publish(log, 3, partition=2)
    publish(log, 4)
    assert await archiver.run(to_sequence=2) == ArchiveReport(archiver.lake_id, 1, 2)
    assert await archiver.run() == ArchiveReport(archiver.lake_id, 2, 3)
    assert await archiver.run() == ArchiveReport(archiver.lake_id, 2, 3)
    found = tables.open_table(folder, MESSAGES).to_pyarrow_dataset().to_table()
    places = zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)
    assert sorted(places) == [*((1, n) for n in range(9)), *((2, n) for n in range(3))]
    assert set(found["data"].to_pylist()) == {b"message %d" % number for number in range(9)}
