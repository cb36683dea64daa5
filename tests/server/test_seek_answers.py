"""The answer to a seek: how many messages were reopened and from when; when none were, why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.pubsub_v1 import types

from commands import invoke
from fanlog import times
from fanlog.v1 import replay_pb2
from server.conftest import PATIENCE_S, RunningServer
from server.project import Project
from server.rest.http import Http
from server.unique import unique

HOUR_S = 3600
DAY_S = 86_400


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


def text(seconds: float) -> str:
    """A time as JSON writes it."""
    stamp = Timestamp()
    stamp.FromMicroseconds(round(seconds * 1_000_000))
    return stamp.ToJsonString()


def shown(seconds: float) -> str:
    """A time as hints write it."""
    return times.of_ns(round(seconds * 1_000) * 1_000_000)


class Seeking:
    """One subscription of a topic with a message an hour, `0` to `3`, all of it taken."""

    def __init__(self, server: RunningServer, *, count: int = 4, keep_s: int = 0, **fields: Any):
        self.server = server
        retention = {"message_retention_duration": Duration(seconds=keep_s)} if keep_s else {}
        self.topic = server.topic(**retention)
        self.name = server.subscription(self.topic, **fields)
        self.times: list[float] = []
        self.ids: list[str] = []
        for number in range(count):
            self.times.append(server.clock.now())
            self.ids += server.publish(self.topic, b"%d" % number)
            server.advance(HOUR_S)

    def take(self) -> list[bytes]:
        received = self.server.pull(self.name)
        if received:
            self.server.ack(self.name, received)
        return [one.message.data for one in received]

    def google(self, **target: Any) -> dict[str, str]:
        """Google's Seek; what is said beside its empty answer."""
        request = types.SeekRequest(subscription=self.name, **target)
        with self.server.channel() as channel:
            call: Any = channel.unary_unary("/google.pubsub.v1.Subscriber/Seek")
            answer, finished = call.with_call(types.SeekRequest.serialize(request), timeout=45)
        assert answer == b""
        return {k: v for k, v in finished.trailing_metadata() or () if k.startswith("fanlog-")}

    def ours(self, **target: Any) -> Any:
        request = replay_pb2.SeekSubscriptionRequest(subscription=self.name, **target)
        with self.server.channel() as channel:
            call: Any = channel.unary_unary("/fanlog.v1.Replay/Seek")
            raw = call(request.SerializeToString(), timeout=PATIENCE_S)
        return replay_pb2.SeekSubscriptionResponse.FromString(raw)


def test_back_into_what_the_topic_keeps(server):
    on = Seeking(server, keep_s=DAY_S)
    assert on.take() == [b"0", b"1", b"2", b"3"]
    said = on.google(time=datetime.fromtimestamp(on.times[1], UTC))
    assert said == {
        "fanlog-reopened": "3",
        "fanlog-acknowledged": "0",
        "fanlog-reopened-from": text(on.times[1]),
    }
    assert on.take() == [b"1", b"2", b"3"]


def test_forward_says_how_many_it_acknowledged(server):
    on = Seeking(server)
    said = on.google(time=datetime.fromtimestamp(on.times[3], UTC))
    assert (said["fanlog-reopened"], said["fanlog-acknowledged"]) == ("0", "3")
    assert said["fanlog-hint"] == "nothing was reopened: nothing from there on was acknowledged"
    said = on.google(time=datetime(2999, 1, 1, tzinfo=UTC))
    assert (said["fanlog-reopened"], said["fanlog-acknowledged"]) == ("0", "1")
    assert said["fanlog-hint"] == "nothing was reopened: nothing was published from there on"


def test_what_nothing_keeps_is_said_to_be_gone(server):
    on = Seeking(server)
    on.take()
    server.advance(8 * DAY_S)
    now = shown(server.clock.now())
    for _ in range(2):
        answer = on.ours(position="earliest")
        assert (answer.reopened, answer.acknowledged) == (0, 0)
        assert not answer.HasField("reopened_from")
        assert answer.hint.startswith(f"nothing was reopened: nothing before {now} is kept")
        assert "message_retention_duration" in answer.hint
        # The same once the log has let go of them.
        server.sweep()


def test_more_was_asked_for_than_is_kept(server):
    on = Seeking(server, keep_s=2 * HOUR_S + 60)
    on.take()
    answer = on.ours(position="earliest")
    assert answer.reopened == 2
    assert answer.reopened_from.ToJsonString() == text(on.times[2])
    assert answer.hint == f"nothing before {shown(on.times[2])} is kept once it is acknowledged"
    assert on.take() == [b"2", b"3"]
    server.sweep()
    # Now they are out of the log.
    answer = on.ours(message_id=on.ids[0])
    assert answer.reopened == 2
    assert answer.hint == f"nothing before {shown(on.times[2])} is kept"


def test_positions_and_messages(server):
    on = Seeking(server, retain_acked_messages=True)
    on.take()
    answer = on.ours(message_id=on.ids[2])
    assert (answer.reopened, answer.acknowledged, answer.hint) == (2, 0, "")
    assert answer.reopened_from.ToJsonString() == text(on.times[2])
    answer = on.ours(position=on.ids[1])
    assert (answer.reopened, answer.acknowledged) == (1, 0)
    answer = on.ours(position=on.ids[3])
    assert (answer.reopened, answer.acknowledged) == (0, 2)
    assert on.take() == [b"3"]
    answer = on.ours(position="earliest")
    assert (answer.reopened, answer.acknowledged, answer.hint) == (4, 0, "")
    answer = on.ours(position="now")
    assert (answer.reopened, answer.acknowledged) == (0, 4)
    assert on.take() == []


def test_a_snapshot(server):
    on = Seeking(server)
    snapshot = on.name.replace("/subscriptions/", "/snapshots/")
    server.ack(on.name, server.pull(on.name, max_messages=1))
    server.subscriber.create_snapshot(request={"name": snapshot, "subscription": on.name})
    said = on.google(snapshot=snapshot)
    assert said["fanlog-reopened"] == "0"
    assert said["fanlog-hint"].startswith("nothing was reopened: nothing was acknowledged since")
    assert on.take() == [b"1", b"2", b"3"]
    said = on.google(snapshot=snapshot)
    assert (said["fanlog-reopened"], said["fanlog-reopened-from"]) == ("3", text(on.times[1]))
    assert "fanlog-hint" not in said
    assert on.take() == [b"1", b"2", b"3"]


def test_a_pattern_counts_all_its_topics(server):
    project = Project(server)
    project.topics("orders.eu", "orders.us")
    subscription = project.subscription("orders.*", retain_acked_messages=True)
    begin = server.clock.now()
    project.publish("orders.us", b"0")
    server.advance(HOUR_S)
    project.publish("orders.eu", b"1", b"2")
    project.take(subscription)
    with server.channel() as channel:
        call: Any = channel.unary_unary("/fanlog.v1.Replay/Seek")
        request = replay_pb2.SeekSubscriptionRequest(subscription=subscription, position="earliest")
        raw = call(request.SerializeToString(), timeout=PATIENCE_S)
        answer = replay_pb2.SeekSubscriptionResponse.FromString(raw)
        assert (answer.reopened, answer.hint) == (3, "")
        assert answer.reopened_from.ToJsonString() == text(begin)
        request.subscription = project.subscription("nothing.*")
        raw = call(request.SerializeToString(), timeout=PATIENCE_S)
        answer = replay_pb2.SeekSubscriptionResponse.FromString(raw)
    assert answer.hint == "nothing was reopened: the subscription reads no topic yet"


def test_what_a_filter_passed_over_counts_as_acknowledged(server):
    on = Seeking(server, count=0, retain_acked_messages=True, filter='attributes.colour = "red"')
    begin = server.clock.now()
    server.publish(on.topic, b"blue", colour="blue")
    server.advance(HOUR_S)
    server.publish(on.topic, b"red", colour="red")
    assert on.take() == [b"red"]
    answer = on.ours(position="earliest")
    assert (answer.reopened, answer.acknowledged) == (2, 0)
    assert answer.reopened_from.ToJsonString() == text(begin)
    assert on.take() == [b"red"]


class TestSurfaces:
    def test_googles_json_has_it_in_headers(self, server):
        on = Seeking(server, keep_s=DAY_S)
        on.take()
        call = Http(server)
        answer = call("POST", f"/v1/{on.name}:seek", {"time": text(on.times[2])})
        assert answer.json() == {}
        assert answer.headers["fanlog-reopened"] == "2"
        assert answer.headers["fanlog-reopened-from"] == text(on.times[2])
        answer = call("POST", f"/v1/{on.name}:seek", {"time": text(on.times[2])})
        assert answer.headers["fanlog-hint"].endswith("nothing from there on was acknowledged")
        call.close()

    def test_the_path_form_in_fields(self, server):
        on = Seeking(server, keep_s=DAY_S)
        on.take()
        call = Http(server)
        answer = call("POST", f"/v1/{on.name}/seek", {"messageId": on.ids[1]}).json()
        expected = {"reopened": 3, "acknowledged": 0, "reopenedFrom": text(on.times[1])}
        assert answer == expected
        body = {"subscription": on.name, "position": "earliest"}
        assert call("POST", f"/v1/{on.name}/seek", body).json()["reopened"] == 1
        body["subscription"] = "projects/test/subscriptions/other"
        assert "the path" in call.refused(400, "POST", f"/v1/{on.name}/seek", body)
        assert "colour" in call.refused(400, "POST", f"/v1/{on.name}/seek?colour=red", {})
        call.close()

    def test_the_short_form_in_fields(self, server):
        call = Http(server)
        name = unique("seek")
        call("POST", "/v1/topics", {"name": name, "message_retention_duration": "86400s"})
        call("POST", "/v1/subscriptions", {"name": name, "topic": name})
        server.publish(f"projects/fanlog/topics/{name}", b"0", b"1")
        since = text(server.clock.now())
        full = f"projects/fanlog/subscriptions/{name}"
        server.ack(full, server.pull(full))
        answer = call("POST", f"/v1/subscriptions/{name}:seek", {"time": "1970-01-01T00:00:00Z"})
        assert answer.json() == {"reopened": 2, "acknowledged": 0, "reopened_from": since}
        call("POST", "/v1/snapshots", {"name": name, "subscription": name})
        answer = call("POST", f"/v1/subscriptions/{name}:seek", {"snapshot": name}).json()
        assert answer["hint"].startswith("nothing was reopened")
        call.close()

    def test_the_command_line(self, server):
        on = Seeking(server, keep_s=DAY_S)
        on.take()

        def run(*place: str) -> str:
            args = ("sub", "seek", on.name, *place)
            result = invoke(args, env={"PUBSUB_EMULATOR_HOST": server.endpoint})
            assert result.exit_code == 0, result.output
            return str(result.stdout)

        since = text(on.times[3])
        assert run("--message-id", on.ids[3]) == (
            f"moved {on.name} to message {on.ids[3]}: 1 reopened from {since} on, 0 acknowledged\n"
        )
        assert ": 2 reopened from " in run("--position", on.ids[1])
        assert run("--end").endswith(
            "the end: 0 reopened, 3 acknowledged; nothing was reopened: nothing was published "
            "from there on\n"
        )
        assert "to the beginning: 4 reopened" in run("--begin")


def test_a_position_of_more_ids_than_there_can_be_topics(server):
    on = Seeking(server)
    ids = ",".join(f"{partition}000000000000" for partition in range(1, 20_002))
    with pytest.raises(grpc.RpcError, match="position: 20001 ids; at most 20000"):
        on.ours(position=ids)
