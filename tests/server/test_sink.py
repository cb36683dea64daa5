"""fanlog.v1.Sink over gRPC: rows are staged, and published once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.errors import CommitFailed
from fanlog.v1 import sink_pb2 as pb
from fanlog.v1.message_pb2 import Message
from server.conftest import PATIENCE_S, PROJECT, RunningServer
from server.unique import unique
from server.v1 import LogClient, SinkClient, code_of

NOBODY = f"projects/{PROJECT}/topics/nobody"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    """One whose time stands still: no sweep takes away what no subscription is to read."""
    return still_server


@pytest.fixture
def log(server: RunningServer) -> Iterator[LogClient]:
    client = LogClient(server)
    yield client
    client.close()


@pytest.fixture
def sink(server: RunningServer) -> Iterator[SinkClient]:
    client = SinkClient(server, unique("query"))
    yield client
    client.close()


def published(log: LogClient, topic: str) -> list[bytes]:
    return log.data(log.range_of(topic))


def staged(server: RunningServer, sink: SinkClient) -> list[str]:
    return [
        one.id for one in server.broker.sink._stages._by_id.values() if one.key.query == sink.query
    ]


def refused_by(call: object, *args: object) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as refused:
        call(*args)  # type: ignore[operator]
    return code_of(refused), refused.value.details()


# An epoch.


def test_staged_rows_are_published_by_the_commit(server, log, sink):
    topic, other = server.topic(), server.topic()
    one, two = sink.key(0, 0), sink.key(0, 1)
    assert sink.stage(two, (topic, [b"c", b"d"])).messages == 2
    assert sink.stage(one, (topic, [b"a"]), (other, [b"x"]), (topic, [b"b"])).messages == 3
    assert published(log, topic) == []
    assert sink.last_epoch() == -1
    before = log.offsets().sequence
    answer = sink.commit(0, one, two)
    assert (answer.messages, answer.repeated_epoch) == (5, False)
    assert log.offsets().sequence == before + 1
    assert published(log, topic) == [b"a", b"b", b"c", b"d"]
    assert published(log, other) == [b"x"]
    assert sink.last_epoch() == 0


def test_subscribers_get_what_a_commit_publishes(server, sink):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    rows = [Message(data=b"%d" % n, ordering_key="k", attributes={"n": str(n)}) for n in range(5)]
    key = sink.key(0)
    sink.stage(key, (topic, rows))
    sink.commit(0, key)
    received = [one.message for one in server.await_pull(subscription)]
    assert [one.data for one in received] == [b"%d" % n for n in range(5)]
    assert [one.attributes["n"] for one in received] == [str(n) for n in range(5)]
    assert {one.ordering_key for one in received} == {"k"}


def test_a_commit_again_publishes_nothing(server, log, sink):
    topic = server.topic()
    key = sink.key(7)
    sink.stage(key, (topic, [b"a", b"b"]))
    first, again = sink.commit(7, key), sink.commit(7, key)
    assert (again.messages, again.repeated_epoch) == (first.messages, True) == (2, True)
    # A query that was restarted stages the epoch once more, and commits other attempts.
    other = sink.key(7, attempt="again")
    sink.stage(other, (topic, [b"a", b"b"]))
    assert sink.commit(7, other).repeated_epoch
    assert published(log, topic) == [b"a", b"b"]
    assert staged(server, sink) == []


def test_attempts_that_lost_are_not_published(server, log, sink):
    topic = server.topic()
    lost, won = sink.key(0, attempt="1"), sink.key(0, attempt="2")
    sink.stage(lost, (topic, [b"x"]))
    sink.stage(won, (topic, [b"a"]))
    assert sink.commit(0, won).messages == 1
    assert published(log, topic) == [b"a"]
    assert "nothing is staged" in refused_by(sink.commit, 1, sink.key(1))[1]
    assert staged(server, sink) == []


def test_an_attempt_that_is_staged_again_gives_way(server, log, sink):
    topic = server.topic()
    key = sink.key(0)
    sink.stage(key, (topic, [b"x", b"y"]))
    sink.stage(key, (topic, [b"a"]))
    assert sink.commit(0, key).messages == 1
    assert published(log, topic) == [b"a"]


def test_an_epoch_without_rows(sink):
    answer = sink.commit(3)
    assert (answer.messages, answer.repeated_epoch) == (0, False)
    assert sink.last_epoch() == 3
    key = sink.key(4)
    assert sink.stage(key).messages == 0
    assert sink.commit(4, key).messages == 0


def test_epochs_go_forward(server, sink):
    topic = server.topic()
    sink.commit(5)
    for call, args in ((sink.commit, (4,)), (sink.stage, (sink.key(4), (topic, [b"a"])))):
        code, text = refused_by(call, *args)
        assert code == "FAILED_PRECONDITION"
        assert "epoch 4" in text
        assert "5" in text
    sink.commit(9)


def test_unknown_stages(server, log, sink):
    topic = server.topic()
    key = sink.key(0)
    sink.stage(key, (topic, [b"a"]))
    code, text = refused_by(sink.commit, 0, key, sink.key(0, 1, "lost"))
    assert code == "FAILED_PRECONDITION"
    assert "'lost'" in text
    assert published(log, topic) == []
    assert sink.commit(0, key).messages == 1


def test_abort(server, log, sink):
    topic = server.topic()
    key = sink.key(0)
    sink.stage(key, (topic, [b"a"]))
    sink.abort(0)
    sink.abort(0)
    assert refused_by(sink.commit, 0, key)[0] == "FAILED_PRECONDITION"
    assert published(log, topic) == []
    assert sink.last_epoch() == -1


def test_queries_do_not_meet(server, log, sink):
    topic = server.topic()
    with closing(SinkClient(server, unique("query"))) as other:
        for one in (sink, other):
            key = one.key(0)
            one.stage(key, (topic, [one.query.encode()]))
            assert one.commit(0, key).messages == 1
    assert published(log, topic) == [sink.query.encode(), other.query.encode()]


def test_two_that_commit_at_once(server, log, sink):
    topic = server.topic()
    key = sink.key(0)
    sink.stage(key, (topic, [b"a"]))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: sink.commit(0, key), range(8)))
    assert [answer.messages for answer in answers] == [1] * 8
    assert sum(not answer.repeated_epoch for answer in answers) == 1
    assert published(log, topic) == [b"a"]


# What is refused.


def test_rows_that_cannot_be_published(server, log, sink):
    topic = server.topic()
    rows = [
        Message(data=b"a"),
        Message(),
        Message(data=b"b", attributes={"goog-x": "1"}),
        Message(data=b"c", attributes={"k": "v" * 1025}),
        Message(data=b"d", ordering_key="k" * 1025),
        Message(data=b"e", attributes={str(n): "" for n in range(101)}),
        Message(data=b"f", attributes={"k": ""}),
        Message(data=bytes(limits.PUBLISH_BYTES_MAX)),
    ]
    key = sink.key(0)
    answer = sink.stage(
        key, (topic, rows[:7]), (NOBODY, [b"x"]), ("rubbish", [b"y"]), (topic, rows[7:])
    )
    assert answer.messages == 2
    reasons = {one.row: one.reason for one in answer.refused}
    assert list(reasons) == [1, 2, 3, 4, 5, 7, 8, 9]
    assert "neither" in reasons[1]
    assert "'goog-x'" in reasons[2]
    assert "1025 bytes" in reasons[3]
    assert "ordering_key" in reasons[4]
    assert "101 attributes" in reasons[5]
    assert reasons[7] == f"topic {NOBODY!r} does not exist"
    assert "'rubbish'" in reasons[8]
    assert "bytes" in reasons[9]
    assert sink.commit(0, key).messages == 2
    assert published(log, topic) == [b"a", b"f"]


def test_rows_are_held_to_the_schema(server, log, sink):
    schema = f"projects/{PROJECT}/schemas/{unique('schema')}"
    server.run(server.broker.schemas.create(schema, "AVRO", AVRO))
    topic = server.topic(schema_settings={"schema": schema, "encoding": "JSON"})
    key = sink.key(0)
    answer = sink.stage(key, (topic, [b'{"n": 1}', b'{"n": "x"}', b"rubbish", b'{"n": 2}']))
    assert answer.messages == 2
    assert [one.row for one in answer.refused] == [1, 2]
    assert "n" in answer.refused[0].reason
    assert sink.commit(0, key).messages == 2
    assert published(log, topic) == [b'{"n": 1}', b'{"n": 2}']
    key = sink.key(1)
    assert sink.stage(key, (topic, [b"rubbish"])).messages == 0


def test_stored_schema_attributes(server, sink):
    schema = f"projects/{PROJECT}/schemas/{unique('schema')}"
    server.run(server.broker.schemas.create(schema, "AVRO", AVRO))
    topic = server.topic(schema_settings={"schema": schema, "encoding": "JSON"})
    subscription = server.subscription(topic)
    key = sink.key(0)
    sink.stage(key, (topic, [b'{"n": 1}']))
    sink.commit(0, key)
    [received] = server.await_pull(subscription)
    assert received.message.attributes["googclient_schemaname"] == schema


def test_dedup_ids_are_honoured(server, log, sink):
    topic = server.topic()
    server.publish(topic, b"a", **{"fanlog-dedup-id": "1"})
    rows = [
        Message(data=data, attributes={"fanlog-dedup-id": dedup_id} if dedup_id else {})
        for data, dedup_id in ((b"again", "1"), (b"b", "2"), (b"c", ""), (b"again", "2"))
    ]
    key = sink.key(0)
    sink.stage(key, (topic, rows), (topic, rows[1:2]))
    assert sink.commit(0, key).messages == 5
    assert published(log, topic) == [b"a", b"b", b"c"]
    server.publish(topic, b"again", **{"fanlog-dedup-id": "2"})
    server.publish(topic, b"d")
    assert published(log, topic) == [b"a", b"b", b"c", b"d"]


def test_a_topic_that_was_deleted(server, sink):
    topic = server.topic()
    key = sink.key(0)
    sink.stage(key, (topic, [b"a"]))
    server.publisher.delete_topic(topic=topic)
    server.publisher.create_topic(name=topic)
    code, text = refused_by(sink.commit, 0, key)
    assert code == "FAILED_PRECONDITION"
    assert "deleted" in text
    assert sink.last_epoch() == -1


def test_more_rows_than_a_publish_may_have(server, log, sink):
    topic = server.topic()
    rows = [b"%d" % n for n in range(2_500)]
    key = sink.key(0)
    assert sink.stage(key, (topic, rows)).messages == 2_500
    assert sink.commit(0, key).messages == 2_500
    assert published(log, topic) == rows


def test_too_many_rows_that_are_refused(server, sink, monkeypatch):
    monkeypatch.setattr(limits, "STAGE_REFUSED_MAX", 3)
    key = sink.key(0)
    code, text = refused_by(sink.stage, key, (NOBODY, [b"x"] * 4))
    assert code == "INVALID_ARGUMENT"
    assert "row 0" in text
    assert refused_by(sink.commit, 0, key)[0] == "FAILED_PRECONDITION"


def test_staged_bytes_are_bounded(server, sink, monkeypatch):
    topic = server.topic()
    before = server.broker.sink._stages.size_bytes
    monkeypatch.setattr(server.broker.sink._stages._spool, "size_bytes_max", before + 100_000)
    key = sink.key(0)
    code, _ = refused_by(sink.stage, key, (topic, [bytes(60_000), bytes(60_000)]))
    assert code == "RESOURCE_EXHAUSTED"
    for epoch in range(5):
        key = sink.key(epoch)
        sink.stage(key, (topic, [bytes(60_000)]))
        sink.commit(epoch, key)
    assert server.broker.sink._stages.size_bytes == before


def test_what_is_no_key(server, sink):
    wrong = [
        pb.StageKey(),
        pb.StageKey(query="q", epoch=-1, attempt="a"),
        pb.StageKey(query="q", epoch=2**63 - 1, attempt="a"),
        pb.StageKey(query="q", partition=-1, attempt="a"),
        pb.StageKey(query="q" * 1025, attempt="a"),
        pb.StageKey(query="q"),
    ]
    for key in wrong:
        assert refused_by(sink.stage, key)[0] == "INVALID_ARGUMENT"
    assert refused_by(sink.stage_raw, [])[0] == "INVALID_ARGUMENT"
    assert refused_by(sink.stage_raw, [b""])[0] == "INVALID_ARGUMENT"
    assert refused_by(sink.commit, 0, sink.key(0), sink.key(0, 0, "b"))[0] == "INVALID_ARGUMENT"
    assert refused_by(sink.commit, 0, sink.key(1))[0] == "INVALID_ARGUMENT"
    many = [sink.key(0, n) for n in range(limits.EPOCH_STAGES_MAX + 1)]
    assert refused_by(sink.commit, 0, *many)[0] == "INVALID_ARGUMENT"
    key = pb.StageRequest(key=sink.key(0)).SerializeToString()
    assert refused_by(sink.stage_raw, [key, key])[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "rubbish", [b"\xff", b"\x12\xff", b"\x12\x05ab", b"\x12\x02\xff\xff", b"\x0a\x01\xff"]
)
def test_rubbish(sink, rubbish):
    first = pb.StageRequest(key=sink.key(0)).SerializeToString()
    assert refused_by(sink.stage_raw, [first, rubbish])[0] == "INVALID_ARGUMENT"
    assert refused_by(sink.stage_raw, [rubbish])[0] == "INVALID_ARGUMENT"
    for method in ("CommitEpoch", "AbortEpoch", "GetQuery"):
        assert refused_by(sink.raw, method, b"\xff\xff")[0] == "INVALID_ARGUMENT"


def test_unknown_fields(sink):
    first = pb.StageRequest(key=sink.key(0)).SerializeToString()
    assert refused_by(sink.stage_raw, [first + b"\xfa\x07\x01a"])[0] == "UNIMPLEMENTED"


def test_a_client_that_goes_away_leaves_nothing(start_server, tmp_path):
    server = start_server("embedded", ManualClock())
    topic = server.topic()
    folder = tmp_path / "data-0" / "stages"
    with closing(SinkClient(server, "q")) as sink:

        def requests() -> Iterator[bytes]:
            yield pb.StageRequest(key=sink.key(0)).SerializeToString()
            rows = pb.StagedRows(topic=topic, messages=[Message(data=bytes(2_000_000))])
            yield pb.StageRequest(rows=[rows]).SerializeToString()
            # It has them, and they are on its disk.
            server.await_that(lambda: any(path.stat().st_size for path in folder.iterdir()))
            raise RuntimeError("gone")

        with pytest.raises(grpc.RpcError):
            sink.stage_raw(requests())
        server.await_that(
            lambda: not server.broker.sink._stages.size_bytes and not [*folder.iterdir()]
        )


# Time, failures, and starting again.


def test_stages_expire(start_server, engine, tmp_path):
    server = start_server(engine, ManualClock())
    topic = server.topic()
    with closing(SinkClient(server, "q")) as sink:
        sink.stage(sink.key(0), (topic, [b"a"]))
        server.advance(limits.STAGE_LIFE_S - 10)
        server.sweep()
        assert len(server.broker.sink._stages._by_id) == 1
        server.advance(20)
        server.sweep()
        assert server.broker.sink._stages._by_id == {}
        # The sweep may have been the server's own, which takes a moment to end.
        late_s = time.monotonic() + PATIENCE_S
        while files(tmp_path):
            assert time.monotonic() < late_s
        assert refused_by(sink.commit, 0, sink.key(0))[0] == "FAILED_PRECONDITION"


def test_queries_that_are_long_over_are_forgotten(start_server, engine):
    server = start_server(engine, ManualClock())
    with closing(SinkClient(server, "q")) as sink:
        sink.commit(4)
        server.advance(limits.QUERY_LIFE_S - 10)
        server.sweep()
        assert sink.last_epoch() == 4
        server.advance(20)
        server.sweep()
        assert sink.last_epoch() == -1


def test_a_commit_that_fails_publishes_nothing_and_can_be_done_again(start_server, engine):
    server = start_server(engine, ManualClock())
    topic = server.topic()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        key = sink.key(0)
        sink.stage(key, (topic, [b"a"]))
        server.store.failures.append(CommitFailed("no"))
        assert refused_by(sink.commit, 0, key)[0] == "UNAVAILABLE"
        assert published(log, topic) == []
        assert sink.last_epoch() == -1
        answer = sink.commit(0, key)
        assert (answer.messages, answer.repeated_epoch) == (1, False)
        assert published(log, topic) == [b"a"]


def test_staged_rows_survive_a_restart(start_server, tmp_path):
    server = start_server("embedded", ManualClock())
    topic = server.topic()
    with closing(SinkClient(server, "q")) as sink:
        sink.stage(sink.key(0), (topic, [b"a"]))
        assert len(files(tmp_path)) == 1
    server.restart()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        assert sink.commit(0, sink.key(0)).messages == 1
        assert published(log, topic) == [b"a"]
        assert files(tmp_path) == []
        sink.stage(sink.key(0, attempt="late"), (topic, [b"a"]))
    server.restart()
    with closing(SinkClient(server, "q")) as sink:
        assert sink.commit(0).repeated_epoch
        assert sink.last_epoch() == 0
    assert files(tmp_path) == []


def test_what_is_damaged_or_begun_is_not_loaded(start_server, tmp_path):
    server = start_server("embedded", ManualClock())
    topic = server.topic()
    with closing(SinkClient(server, "q")) as sink:
        for epoch in range(3):
            sink.stage(sink.key(epoch), (topic, [b"%d" % epoch * 100]))
    server._stop_serving()
    folder = tmp_path / "data-0" / "stages"
    (folder / "0000.draft").write_bytes(b"half")
    stages = {key.epoch: stage.id for key, stage in server.broker.sink._stages._by_key.items()}
    (folder / f"{stages[1]}.stage").write_bytes(b"rubbish")
    body = bytearray((folder / f"{stages[2]}.stage").read_bytes())
    body[100] ^= 1
    (folder / f"{stages[2]}.stage").write_bytes(body)
    server.start()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        assert refused_by(sink.commit, 1, sink.key(1))[0] == "FAILED_PRECONDITION"
        code, text = refused_by(sink.commit, 2, sink.key(2))
        assert code == "DATA_LOSS"
        assert "epoch 2" in text
        assert sink.commit(0, sink.key(0)).messages == 1
        assert published(log, topic) == [b"0" * 100]
    assert [path.suffix for path in folder.iterdir()].count(".draft") == 0


def files(place: Path) -> list[Path]:
    return [path for path in place.glob("data-0/stages/*") if path.suffix != ".damaged"]


def test_the_reserve_of_the_disk_is_kept(start_server, engine, monkeypatch):
    server = start_server(engine, ManualClock())
    topic = server.topic()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        key = sink.key(0)
        sink.stage(key, (topic, [b"a"]))
        monkeypatch.setattr(server.broker.ledger._writer, "_disk_reserve_bytes", 1 << 60)
        for call, args in ((sink.stage, (sink.key(1), (topic, [b"x"]))), (sink.commit, (0, key))):
            code, text = refused_by(call, *args)
            assert code == "RESOURCE_EXHAUSTED"
            assert "the disk has" in text
        assert published(log, topic) == []
        monkeypatch.undo()
        assert sink.commit(0, key).messages == 1
        assert published(log, topic) == [b"a"]
        assert server.broker.sink._stages.size_bytes == 0
