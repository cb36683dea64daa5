"""The job `verify`: lake against log, whatever the lake has come to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import json_format

from acceptance.served import PATIENCE_S
from fanlog.client import Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.worker import Worker
from spark.worlds import DAY_S


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
class TestVerify:
    """It names every file that is corrupt, and counts what is not."""

    @pytest.fixture
    def verify(self, spark, world):
        context = Context(spark=spark, endpoint=world.server.endpoint, location=world.location)

        def run(**arguments: Any) -> Any:
            with Client(world.server.endpoint) as client:
                job = JobClient(client).create("projects/test", "verify", arguments).name
                worker = Worker(lambda: client, kinds.runners(context), name="w")
                worker.run_one(client, wait_s=PATIENCE_S)
                ended = JobClient(client).get(job)
            assert state_of(ended) == "DONE", ended.error
            return json_format.MessageToDict(ended.result)

        return run

    @pytest.fixture
    def paths(self, world) -> list[Path]:
        """Four files, of ten messages each; all but the last are in the lake alone."""
        found: list[Path] = []
        for number in range(4):
            world.publish(size_bytes=5_000)
            world.steps().run()
            found += sorted(set(world.lake.rglob("*.parquet")) - set(found))
            if number == 2:
                world.pass_time(2 * DAY_S)
        assert world.tiers() == (30, 40, 40)
        return found

    def test_all_is_fine(self, verify, paths):
        found = verify()
        assert found["is_fine"]
        assert (found["messages"], found["files"], found["compared"]) == (40, 4, 10)
        assert (found["missing"], found["wrong"], found["damaged_files"]) == (0, [], [])

    def test_every_corrupt_file_is_named(self, verify, world, paths):
        one, two, _, four = paths
        one.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        two.unlink()
        # A flipped bit in a page, of which a footer knows nothing.
        content = bytearray(four.read_bytes())
        content[len(content) // 2] ^= 1
        four.write_bytes(content)
        found = verify()
        assert not found["is_fine"]
        named = {entry["file"]: entry["reason"] for entry in found["damaged_files"]}
        assert named.keys() == {str(path.relative_to(world.lake)) for path in (one, two, four)}
        assert all(name in reason for name, reason in named.items())
        assert (found["files"], found["damaged"]) == (4, 3)
        # What could be read was counted, and what could not is missing.
        assert (found["messages"], found["missing"]) == (10, 30)
        assert [(entry["topic"], entry["missing"]) for entry in found["wrong"]] == [
            (world.topic, 30)
        ]

    def test_a_window(self, verify, world, paths):
        """Only what lies in it is counted; what is damaged beside it is named all the same."""
        paths[0].write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        young = datetime.fromtimestamp(1_000_000 + DAY_S, UTC).isoformat()
        found = verify(topics=[world.topic], start_time=young)
        assert found["damaged"] == 1
        assert (found["messages"], found["missing"], found["compared"]) == (10, 0, 10)
        found = verify(topics=[world.topic], end_time=young)
        assert (found["messages"], found["missing"], found["compared"]) == (20, 10, 0)

    def test_another_byte_in_the_log_is_different(self, verify, world, paths):
        """Both can be read, and say different things."""
        rows = pq.read_table(paths[3])
        at = rows.column_names.index("data")
        rows = rows.set_column(at, rows.schema.field(at), pa.array([b"x"] * rows.num_rows))
        pq.write_table(rows, paths[3])
        found = verify()
        assert (found["is_fine"], found["different"], found["missing"]) == (False, 1, 0)
