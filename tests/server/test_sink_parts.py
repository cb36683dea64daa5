"""Epochs too large for one commit: published in parts, whatever comes in between, once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import grpc
import pytest

from fanlog import limits
from fanlog.broker.verbs import sink as sink_module
from fanlog.errors import CommitFailed, DiskFull
from server.conftest import PATIENCE_S, RunningServer
from server.v1 import LogClient, SinkClient, code_of

ROWS = [[b"%d-%d " % (stage, row) * 50 for row in range(40)] for stage in range(3)]
WHOLE = [row for rows in ROWS for row in rows]
#: Otherwise a sweep takes away what no subscription is to read, in the middle of a slow test.
KEPT = {"seconds": 600}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EPOCH_WHOLE_BYTES_MAX", 10_000)
    monkeypatch.setattr(limits, "EPOCH_PART_BYTES", 3_000)
    monkeypatch.setattr(limits, "STAGE_WRITE_BYTES", 1_000)
    monkeypatch.setattr(sink_module, "RETRY_S", 0.01)


def staged(sink: SinkClient, topic: str, epoch: int = 0) -> list[Any]:
    """Three stages of small batches, and one without rows."""
    keys = [sink.key(epoch, number) for number in range(4)]
    for key, rows in zip(keys, ROWS, strict=False):
        answer = sink.stage(key, *((topic, rows[at : at + 4]) for at in range(0, 40, 4)))
        assert answer.messages == 40
    sink.stage(keys[3])
    return keys


def published(log: LogClient, topic: str) -> list[bytes]:
    return log.data(log.range_of(topic))


class Trouble:
    """Breaks the log's commits from the n-th on, or some of them, until told otherwise."""

    def __init__(self, server: RunningServer, error: Exception, *, at: int, until: float) -> None:
        self._store, self._commit = server.store, server.store.commit
        self._error, self._at, self._until = error, at, until
        self.count = 0
        self.met = threading.Event()
        server.store.commit = self.commit

    def commit(self, commit: Any) -> None:
        self.count += bool(commit.appends)
        if commit.appends and self._at <= self.count < self._until:
            self.met.set()
            raise self._error
        self._commit(commit)


def test_parts_are_published_in_order(start_server, engine):
    server = start_server(engine)
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = staged(sink, topic)
        before = log.offsets().sequence
        answer = sink.commit(0, *reversed(keys))
        assert (answer.messages, answer.repeated_epoch) == (120, False)
        assert log.offsets().sequence > before + 5
        assert published(log, topic) == WHOLE
        again = sink.commit(0, *keys)
        assert (again.messages, again.repeated_epoch) == (120, True)
        assert published(log, topic) == WHOLE
        assert server.broker.sink._stages._by_id == {}
        assert list(server.broker.hard.sinks.all_committing()) == []
        sizes = [
            sum(len(b.content) for b in a.bodies) for c in server.store.commits for a in c.appends
        ]
        assert max(sizes) <= 3_000


@pytest.mark.parametrize("error", [CommitFailed("no"), DiskFull("no")])
@pytest.mark.parametrize("at", [1, 4])
def test_commits_that_fail_on_the_way(start_server, engine, error, at):
    server = start_server(engine)
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = staged(sink, topic)
        trouble = Trouble(server, error, at=at, until=at + 2)
        assert sink.commit(0, *keys).messages == 120
        assert trouble.met.is_set()
        assert published(log, topic) == WHOLE


def test_an_epoch_that_cannot_be_begun(start_server, engine):
    server = start_server(engine)
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = staged(sink, topic)
        server.store.failures.append(CommitFailed("no"))
        with pytest.raises(grpc.RpcError) as refused:
            sink.commit(0, *keys)
        assert code_of(refused) == "UNAVAILABLE"
        assert published(log, topic) == []
        assert sink.commit(0, *keys).messages == 120
        assert published(log, topic) == WHOLE


def stopped_in_the_middle(server: RunningServer, sink: SinkClient, topic: str) -> list[Any]:
    keys = staged(sink, topic)
    trouble = Trouble(server, CommitFailed("no"), at=4, until=float("inf"))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sink.commit, 0, *keys)
        assert trouble.met.wait(PATIENCE_S)
        server.restart()
        with pytest.raises(grpc.RpcError):
            answer.result()
    return keys


def test_a_restart_in_the_middle(start_server):
    server = start_server("embedded")
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink:
        keys = stopped_in_the_middle(server, sink, topic)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        # The broker goes on by itself.
        late_s = time.monotonic() + PATIENCE_S
        while sink.last_epoch() != 0:
            assert time.monotonic() < late_s
        assert published(log, topic) == WHOLE
        answer = sink.commit(0, *keys)
        assert (answer.messages, answer.repeated_epoch) == (120, True)
        assert published(log, topic) == WHOLE
        assert server.broker.sink._stages._by_id == {}


def test_a_commit_joins_one_that_goes_on(start_server):
    server = start_server("embedded")
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink:
        keys = stopped_in_the_middle(server, sink, topic)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        assert sink.commit(0, *keys).messages == 120
        assert sink.commit(1).messages == 0
        assert published(log, topic) == WHOLE


def test_stages_that_are_gone_in_the_middle(start_server, tmp_path):
    server = start_server("embedded")
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink:
        keys = staged(sink, topic)
        trouble = Trouble(server, CommitFailed("no"), at=4, until=float("inf"))
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(sink.commit, 0, *keys)
            assert trouble.met.wait(PATIENCE_S)
            server._stop_serving()
            with pytest.raises(grpc.RpcError):
                answer.result()
    for path in (tmp_path / "data-0" / "stages").iterdir():
        path.unlink()
    server.start()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        with pytest.raises(grpc.RpcError) as refused:
            sink.commit(0, *keys)
        assert code_of(refused) == "DATA_LOSS"
        assert sink.last_epoch() == -1
        some = published(log, topic)
        assert some == WHOLE[: len(some)] != []
        sink.abort(0)
        assert sink.commit(1).messages == 0


class TestRestoredFromABackup:
    """What was begun when the backup was made is finished; what was not is staged again."""

    def restored(self, start_server, tmp_path, data_dir):
        """A server on what was restored; another process makes the backup, as always."""
        for words in (
            ("backup", str(tmp_path / "backup"), "--data-dir", str(data_dir)),
            ("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "restored")),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "fanlog", *words],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert done.returncode == 0, done.stderr
            assert "warning" not in done.stdout
        return start_server("embedded", data_dir=tmp_path / "restored")

    def test_an_epoch_that_was_being_published(self, start_server, tmp_path):
        server = start_server("embedded")
        topic = server.topic(message_retention_duration=KEPT)
        with closing(SinkClient(server, "q")) as sink:
            keys = staged(sink, topic)
            other = sink.key(7, 0)
            sink.stage(other, (topic, [b"not begun"]))
            trouble = Trouble(server, CommitFailed("no"), at=4, until=float("inf"))
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(sink.commit, 0, *keys)
                assert trouble.met.wait(PATIENCE_S)
                second = self.restored(start_server, tmp_path, tmp_path / "data-0")
                trouble._until = 0
                assert answer.result().messages == 120
        assert len(list((tmp_path / "backup" / "stages").iterdir())) == 3
        with closing(SinkClient(second, "q")) as sink, closing(LogClient(second)) as log:
            assert sink.commit(0, *keys).messages == 120
            assert published(log, topic) == WHOLE
            # The other one is not there, and nobody says that it was published.
            with pytest.raises(grpc.RpcError) as refused:
                sink.commit(7, other)
            assert code_of(refused) == "FAILED_PRECONDITION"
            assert "nothing is staged as" in refused.value.details()
            assert sink.last_epoch() == 0
            sink.stage(other, (topic, [b"not begun"]))
            assert sink.commit(7, other).messages == 1
            assert published(log, topic) == [*WHOLE, b"not begun"]

    def test_an_epoch_that_was_committed(self, start_server, tmp_path):
        server = start_server("embedded")
        topic = server.topic(message_retention_duration=KEPT)
        with closing(SinkClient(server, "q")) as sink:
            keys = staged(sink, topic)
            sink.commit(0, *keys)
        second = self.restored(start_server, tmp_path, tmp_path / "data-0")
        assert not (tmp_path / "backup" / "stages").exists()
        with closing(SinkClient(second, "q")) as sink, closing(LogClient(second)) as log:
            assert sink.commit(0, *keys).repeated_epoch
            assert published(log, topic) == WHOLE


def test_an_epoch_that_is_being_published_is_not_aborted(start_server, engine):
    server = start_server(engine)
    topic = server.topic(message_retention_duration=KEPT)
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = staged(sink, topic)
        trouble = Trouble(server, CommitFailed("no"), at=4, until=float("inf"))
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(sink.commit, 0, *keys)
            assert trouble.met.wait(PATIENCE_S)
            with pytest.raises(grpc.RpcError) as refused:
                sink.abort(0)
            assert code_of(refused) == "FAILED_PRECONDITION"
            trouble._until = 0
            assert answer.result().messages == 120
        assert published(log, topic) == WHOLE


def test_live_messages_come_in_between(start_server, engine):
    server = start_server(engine)
    topic, other = server.topic(message_retention_duration=KEPT), server.topic()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = staged(sink, topic)
        trouble = Trouble(server, CommitFailed("no"), at=4, until=4)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(sink.commit, 0, *keys)
            while not answer.done():
                server.publish(other, b"live")
            assert answer.result().messages == 120
        assert published(log, topic) == WHOLE
        assert trouble.count > 5


def test_a_topic_deleted_in_the_middle(start_server, engine):
    server = start_server(engine)
    topic, other = server.topic(message_retention_duration=KEPT), server.topic()
    with closing(SinkClient(server, "q")) as sink, closing(LogClient(server)) as log:
        keys = [sink.key(0, 0), sink.key(0, 1)]
        sink.stage(keys[0], *((topic, ROWS[0][at : at + 4]) for at in range(0, 40, 4)))
        sink.stage(keys[1], *((other, ROWS[1][at : at + 4]) for at in range(0, 40, 4)))
        trouble = Trouble(server, CommitFailed("no"), at=2, until=float("inf"))
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(sink.commit, 0, *keys)
            assert trouble.met.wait(PATIENCE_S)
            deleted = False
            while not deleted:
                try:
                    server.publisher.delete_topic(topic=other, retry=None)
                    deleted = True
                except Exception:
                    assert not answer.done()
            trouble._until = 0
            assert answer.result().messages == 80
        assert published(log, topic) == ROWS[0]
