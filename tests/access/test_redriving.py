"""Dead letters go back to where they failed with the right to that subscription alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from access.conftest import PROJECT, Guarded, Start
from access.test_callers import PUBLISHER, SUBSCRIBER, SUBSCRIPTION, TOPIC, publish_request
from fanlog.v1 import jobs_pb2, replay_pb2
from fanlog.wire import types

LETTERS = f"{PROJECT}/topics/letters"
#: Reads the letters; its consumer has no right to where they failed.
READER = f"{PROJECT}/subscriptions/letters"
#: Reads them, too, by the name of the topic.
PATTERN = f"{PROJECT}/subscriptions/all-letters"
ATTEMPTS = 5


async def make_a_letter(guarded: Guarded) -> None:
    for name in (TOPIC, LETTERS):
        await guarded.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=name), types.Topic)
    for name, topic in ((READER, LETTERS), (PATTERN, f"{PROJECT}/topics/lett*")):
        wanted = types.Subscription(name=name, topic=topic)
        await guarded.call(f"{SUBSCRIBER}/CreateSubscription", wanted, types.Subscription)
    failing = types.Subscription(name=SUBSCRIPTION, topic=TOPIC)
    failing.dead_letter_policy.dead_letter_topic = LETTERS
    failing.dead_letter_policy.max_delivery_attempts = ATTEMPTS
    await guarded.call(f"{SUBSCRIBER}/CreateSubscription", failing, types.Subscription)
    await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    for _ in range(ATTEMPTS):
        pull = types.PullRequest(subscription=SUBSCRIPTION, max_messages=1)
        answer = await guarded.call(f"{SUBSCRIBER}/Pull", pull, types.PullResponse)
        nack = types.ModifyAckDeadlineRequest(
            subscription=SUBSCRIPTION,
            ack_ids=[one.ack_id for one in answer.received_messages],
            ack_deadline_seconds=0,
        )
        await guarded.call(f"{SUBSCRIBER}/ModifyAckDeadline", nack, Empty)


async def consumer(guarded: Guarded) -> str:
    token = await guarded.token("ci")
    for name in (READER, PATTERN):
        await guarded.grant(name, "roles/pubsub.subscriber", guarded.member("ci"))
    return token


async def redrive(guarded: Guarded, subscription: str, token: str) -> Any:
    request = replay_pb2.RedriveRequest(subscription=subscription, all=True)
    path = "fanlog.v1.Replay/Redrive"
    return await guarded.call(path, request, replay_pb2.RedriveResponse, token)


async def test_letters_of_a_subscription_that_has_no_policy_any_more(guarded: Guarded):
    """Its policy does not name the topic any more; its letters say where they failed."""
    await make_a_letter(guarded)
    request = types.UpdateSubscriptionRequest(
        subscription=types.Subscription(name=SUBSCRIPTION, topic=TOPIC)
    )
    request.update_mask.paths.append("dead_letter_policy")
    await guarded.call(f"{SUBSCRIBER}/UpdateSubscription", request, types.Subscription)
    token = await consumer(guarded)
    answer = await redrive(guarded, READER, token)
    assert (answer.reopened, answer.skipped) == (0, 1)
    assert "may not consume" in answer.skipped_letters[0].reason
    await guarded.grant(SUBSCRIPTION, "roles/pubsub.subscriber", guarded.member("ci"))
    answer = await redrive(guarded, READER, token)
    assert (answer.reopened, answer.skipped) == (1, 0)


async def test_a_subscription_on_a_pattern_that_the_letters_match(guarded: Guarded):
    await make_a_letter(guarded)
    token = await consumer(guarded)
    request = replay_pb2.RedriveRequest(subscription=PATTERN, all=True)
    code = await guarded.code(
        *("fanlog.v1.Replay/Redrive", request, replay_pb2.RedriveResponse, token)
    )
    assert code == "PERMISSION_DENIED"


async def test_a_job_does_not_do_what_its_maker_may_not(start: Start, tmp_path: Path):
    path = tmp_path / "resources.toml"
    path.write_text('[roles."roles/custom.jobs"]\npermissions = ["fanlog.jobs.create"]\n')
    guarded = await start(resources=path, project="shop")
    await make_a_letter(guarded)
    token = await consumer(guarded)
    await guarded.grant(PROJECT, "roles/custom.jobs", guarded.member("ci"))

    async def create(**arguments: Any) -> str:
        given = Struct()
        given.update({"subscription": READER} | arguments)
        request = jobs_pb2.CreateJobRequest(parent=PROJECT, kind="redrive", arguments=given)
        return await guarded.code("fanlog.v1.Jobs/CreateJob", request, jobs_pb2.Job, token)

    assert await create() == "PERMISSION_DENIED"
    assert await create(message_ids=["1"]) == "PERMISSION_DENIED"
    assert await create(source=READER) == "OK"
    await guarded.grant(SUBSCRIPTION, "roles/pubsub.subscriber", guarded.member("ci"))
    assert await create() == "OK"
