"""Callers of a server that authenticates: tokens, streams, lists, and what may not be seen."""

from __future__ import annotations

import asyncio
import gc
import json
import time

import grpc
import pytest
from google.iam.v1 import iam_policy_pb2

from access.conftest import AUTH, PROJECT, Guarded, Start
from fanlog.server.callers import AuthorizedCaller
from fanlog.transport.server_call import ServerCall
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types

TOPIC = f"{PROJECT}/topics/orders"
SUBSCRIPTION = f"{PROJECT}/subscriptions/billing"
PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"


async def make(guarded: Guarded) -> None:
    await guarded.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=TOPIC), types.Topic)
    subscription = types.Subscription(name=SUBSCRIPTION, topic=TOPIC)
    await guarded.call(f"{SUBSCRIBER}/CreateSubscription", subscription, types.Subscription)


def publish_request(topic: str = TOPIC) -> types.PublishRequest:
    return types.PublishRequest(topic=topic, messages=[types.PubsubMessage(data=b"x")])


async def publish(guarded: Guarded, token: str | None, topic: str = TOPIC) -> str:
    request = publish_request(topic)
    return await guarded.code(f"{PUBLISHER}/Publish", request, types.PublishResponse, token)


async def test_the_first_administrator(guarded: Guarded):
    path = guarded.folder / "admin.token"
    assert path.stat().st_mode & 0o777 == 0o600
    who = await guarded.call(f"{AUTH}/WhoAmI", pb.WhoAmIRequest(), pb.WhoAmIResponse)
    assert who.member == guarded.member("admin")


async def test_a_role_on_one_topic(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    assert await publish(guarded, token) == "PERMISSION_DENIED"
    await guarded.grant(TOPIC, "roles/pubsub.publisher", guarded.member("ci"))
    assert await publish(guarded, token) == "OK"
    # The same answer for what is there and what is not.
    for name in ("other", "missing"):
        get = types.GetTopicRequest(topic=f"{PROJECT}/topics/{name}")
        code = await guarded.code(f"{PUBLISHER}/GetTopic", get, types.Topic, token)
        assert code == "PERMISSION_DENIED"
    get = types.GetTopicRequest(topic=f"{PROJECT}/topics/missing")
    assert await guarded.code(f"{PUBLISHER}/GetTopic", get, types.Topic) == "NOT_FOUND"


async def test_permissions_are_told_to_the_caller(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/pubsub.publisher", guarded.member("ci"))
    asked = iam_policy_pb2.TestIamPermissionsRequest(
        resource=TOPIC, permissions=["pubsub.topics.publish", "pubsub.topics.delete"]
    )
    answer = await guarded.call(
        "google.iam.v1.IAMPolicy/TestIamPermissions",
        *(asked, iam_policy_pb2.TestIamPermissionsResponse, token),
    )
    assert answer.permissions == ["pubsub.topics.publish"]


async def test_all_users_and_all_authenticated_users(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant(TOPIC, "roles/pubsub.publisher", "allAuthenticatedUsers")
    assert await publish(guarded, token) == "OK"
    assert await publish(guarded, None) == "UNAUTHENTICATED"
    await guarded.grant(TOPIC, "roles/pubsub.publisher", "allUsers")
    assert await publish(guarded, None) == "OK"
    # A credential that is wrong is no better than none: it is worse.
    assert await publish(guarded, "flt_wrong") == "UNAUTHENTICATED"


async def test_references_to_another_project_need_rights_there(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant("projects/other", "roles/pubsub.editor", guarded.member("ci"))
    wanted = types.Subscription(name="projects/other/subscriptions/spy", topic=TOPIC)
    path = f"{SUBSCRIBER}/CreateSubscription"
    assert await guarded.code(path, wanted, types.Subscription, token) == "PERMISSION_DENIED"
    mine = types.Topic(name="projects/other/topics/mine")
    await guarded.call(f"{PUBLISHER}/CreateTopic", mine, types.Topic, token)
    wanted = types.Subscription(name="projects/other/subscriptions/dead", topic=mine.name)
    wanted.dead_letter_policy.dead_letter_topic = TOPIC
    assert await guarded.code(path, wanted, types.Subscription, token) == "PERMISSION_DENIED"
    await guarded.grant(TOPIC, "roles/pubsub.publisher", guarded.member("ci"))
    assert await guarded.code(path, wanted, types.Subscription, token) == "OK"
    # Its own project sees that somebody reads its topic only if it may see who.
    viewer = await guarded.token("viewer")
    await guarded.grant(PROJECT, "roles/pubsub.viewer", guarded.member("viewer"))
    await guarded.grant(TOPIC, "roles/pubsub.subscriber", guarded.member("ci"))
    spy = types.Subscription(name="projects/other/subscriptions/spy", topic=TOPIC)
    assert await guarded.code(path, spy, types.Subscription, token) == "OK"
    asked = types.ListTopicSubscriptionsRequest(topic=TOPIC)
    path = f"{PUBLISHER}/ListTopicSubscriptions"
    answer = types.ListTopicSubscriptionsResponse
    assert list((await guarded.call(path, asked, answer, viewer)).subscriptions) == [SUBSCRIPTION]
    assert len((await guarded.call(path, asked, answer)).subscriptions) == 2


async def _stream_code(guarded: Guarded, token: str, opened: asyncio.Event) -> tuple[str, float]:
    """The status that ends a streaming pull, and when."""

    async def requests():
        yield types.StreamingPullRequest(
            subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10
        ).SerializeToString()
        await asyncio.sleep(30)

    call = guarded.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(
        requests(), metadata=(("authorization", f"Bearer {token}"),)
    )
    try:
        async for _ in call:
            opened.set()
    except grpc.aio.AioRpcError as error:
        return error.code().name, time.monotonic()
    return "OK", time.monotonic()


@pytest.mark.parametrize("way", ["token", "policy", "account"])
async def test_open_streams_end_when_the_right_does(guarded: Guarded, way: str):
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant(SUBSCRIPTION, "roles/pubsub.subscriber", guarded.member("ci"))
    assert await publish(guarded, "") == "OK"
    opened = asyncio.Event()
    stream = asyncio.create_task(_stream_code(guarded, token, opened))
    await asyncio.wait_for(opened.wait(), 20)
    if way == "token":
        found = await guarded.call(
            f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account
        )
        gone = pb.RevokeTokenRequest(account="ci", token_id=found.tokens[0].id)
        await guarded.call(f"{AUTH}/RevokeToken", gone, pb.Account)
    elif way == "account":
        request = pb.DeleteAccountRequest(name="ci")
        await guarded.call(f"{AUTH}/DeleteAccount", request, pb.DeleteAccountResponse)
    else:
        await guarded.grant(SUBSCRIPTION, "roles/pubsub.viewer", guarded.member("ci"))
    began = time.monotonic()
    code, ended = await asyncio.wait_for(stream, 20)
    assert code == ("PERMISSION_DENIED" if way == "policy" else "UNAUTHENTICATED")
    # Within a second on an idle machine; a busy one is given more.
    assert ended - began < 10
    if way != "policy":
        assert await publish(guarded, token) == "UNAUTHENTICATED"


async def test_the_server_keeps_an_owner(guarded: Guarded):
    empty = pb.SetPolicyRequest(resource="server", policy=pb.AccessPolicy())
    code = await guarded.code(f"{AUTH}/SetPolicy", empty, pb.AccessPolicy)
    assert code == "FAILED_PRECONDITION"


async def test_custom_roles_come_from_the_resources_file(start: Start, tmp_path):
    path = tmp_path / "resources.toml"
    path.write_text(
        '[roles."roles/custom.sender"]\npermissions = ["pubsub.topics.publish"]\n[topics.orders]\n'
    )
    guarded = await start(resources=path, project="shop")
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/custom.sender", guarded.member("ci"))
    assert await publish(guarded, token) == "OK"
    get = types.GetTopicRequest(topic=TOPIC)
    assert await guarded.code(f"{PUBLISHER}/GetTopic", get, types.Topic, token) != "OK"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[roles."roles/custom.x"]\npermissions = ["pubsub.nothing"]', "is no permission"),
        ('[roles."roles/owner"]\npermissions = ["pubsub.topics.get"]', "is no name of a custom"),
        ('[roles."roles/custom.x"]\npermissions = []', "has no permissions"),
        ('[roles."roles/custom.x"]\ntitle = "x"', "has a list of permissions"),
    ],
)
def test_custom_roles_that_cannot_be(tmp_path, text, reason):
    from fanlog.errors import ConfigError
    from fanlog.server.resource_file import read_resources

    path = tmp_path / "resources.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        read_resources(path, "shop")


async def test_the_record_has_who_and_what_and_no_secret(start: Start, tmp_path):
    path = tmp_path / "audit.log"
    guarded = await start(audit_log=path, audit_data_access=True)
    await make(guarded)
    token = await guarded.token("ci")
    await publish(guarded, token)
    await publish(guarded, "flt_planted-secret")
    for _ in range(200):
        text = path.read_text()
        if text.count("Publish") >= 2:
            break
        await asyncio.sleep(0.02)
    assert token not in text
    assert "planted-secret" not in text
    entries = [json.loads(line) for line in text.splitlines()]
    [refused] = [one for one in entries if one["result"] == "PERMISSION_DENIED"]
    assert refused["principal"] == guarded.member("ci")
    assert refused["resource"] == TOPIC
    assert refused["lacking"] == "pubsub.topics.publish"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_accounts_and_policies_survive_a_restart(start: Start, tmp_path):
    settings = {"memory": False, "data_dir": tmp_path / "data", "auth_dir": tmp_path / "auth"}
    guarded = await start(**settings)
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/pubsub.publisher", guarded.member("ci"))
    hard = guarded.server.broker.hard
    state = dict(guarded.server.store.state())
    from fanlog.core.hard_state import HardState

    loaded = HardState.load(state.items())
    assert loaded.identities.account("ci") == hard.identities.account("ci")
    assert loaded.identities.policy(PROJECT) == hard.identities.policy(PROJECT)
    assert token.encode() not in b"".join(state.values())


async def test_a_call_that_ended_leaves_nothing_behind(guarded: Guarded):
    """Calls and their callers that know each other would wait for the next collection."""
    await make(guarded)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            assert await publish(guarded, "") == "OK"
        left = [one for one in gc.get_objects() if type(one) in (AuthorizedCaller, ServerCall)]
    finally:
        gc.enable()
    assert len(left) < 5


async def test_dead_letters_that_are_made_need_rights_of_their_own(start: Start, tmp_path):
    """The label makes a topic, or has one that is there read by a new subscription."""
    path = tmp_path / "resources.toml"
    path.write_text(
        '[roles."roles/custom.maker"]\npermissions = ["pubsub.subscriptions.create"]\n'
        '[topics.orders]\n[topics."made.dead-letters"]\n'
    )
    guarded = await start(resources=path, project="shop")
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/custom.maker", guarded.member("ci"))
    await guarded.grant(TOPIC, "roles/pubsub.subscriber", guarded.member("ci"))

    async def create(name: str, **labels: str) -> str:
        wanted = types.Subscription(
            name=f"{PROJECT}/subscriptions/{name}", topic=TOPIC, labels=labels
        )
        path = f"{SUBSCRIBER}/CreateSubscription"
        return await guarded.code(path, wanted, types.Subscription, token)

    auto = {"fanlog-dead-letter": "auto"}
    assert await create("plain") == "OK"
    assert await create("other", **auto) == "PERMISSION_DENIED"
    assert await create("made", **auto) == "PERMISSION_DENIED"
    letters = f"{PROJECT}/topics/made.dead-letters"
    await guarded.grant(letters, "roles/pubsub.serviceAgent", guarded.member("ci"))
    assert await create("made", **auto) == "OK"


async def test_a_put_says_nothing_of_a_subscription_that_may_not_be_changed(start: Start, tmp_path):
    path = tmp_path / "resources.toml"
    permissions = ["pubsub.subscriptions.create", "pubsub.topics.attachSubscription"]
    path.write_text(f'[roles."roles/custom.maker"]\npermissions = {permissions}\n[topics.orders]\n')
    guarded = await start(resources=path, project="shop")
    subscription = types.Subscription(name=SUBSCRIPTION, topic=TOPIC)
    await guarded.call(f"{SUBSCRIBER}/CreateSubscription", subscription, types.Subscription)
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/custom.maker", guarded.member("ci"))
    other = types.Topic(name=f"{PROJECT}/topics/other")
    await guarded.call(f"{PUBLISHER}/CreateTopic", other, types.Topic)
    answer = await guarded.http("PUT", f"/v1/{SUBSCRIPTION}", {"topic": other.name}, token)
    assert answer.status == 403
    assert "orders" not in answer.text


async def test_snapshots_and_schemas_of_another_project(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant("projects/other", "roles/pubsub.admin", guarded.member("ci"))
    snapshot = types.CreateSnapshotRequest(
        name="projects/other/snapshots/monday", subscription=SUBSCRIPTION
    )
    path = f"{SUBSCRIBER}/CreateSnapshot"
    assert await guarded.code(path, snapshot, types.Snapshot, token) == "PERMISSION_DENIED"
    # What is read with its own subscription, back to where another project's snapshot stands.
    mine = types.CreateSnapshotRequest(
        name=f"{PROJECT}/snapshots/monday", subscription=SUBSCRIPTION
    )
    await guarded.call(path, mine, types.Snapshot)
    await guarded.grant(SUBSCRIPTION, "roles/pubsub.subscriber", guarded.member("ci"))
    seek = types.SeekRequest(subscription=SUBSCRIPTION, snapshot=mine.name)
    code = await guarded.code(f"{SUBSCRIBER}/Seek", seek, types.SeekResponse, token)
    assert code == "PERMISSION_DENIED"
    body = {"type": "AVRO", "definition": '{"type": "record", "name": "R", "fields": []}'}
    answer = await guarded.http("POST", f"/v1/{PROJECT}/schemas?schemaId=shape", body)
    assert answer.status == 200, answer.text
    topic = types.Topic(name="projects/other/topics/shaped")
    topic.schema_settings.schema = f"{PROJECT}/schemas/shape"
    topic.schema_settings.encoding = 1  # JSON
    path = f"{PUBLISHER}/CreateTopic"
    assert await guarded.code(path, topic, types.Topic, token) == "PERMISSION_DENIED"
    await guarded.grant(f"{PROJECT}/schemas/shape", "roles/pubsub.editor", guarded.member("ci"))
    assert await guarded.code(path, topic, types.Topic, token) == "OK"


async def test_conditions_are_refused_by_name(guarded: Guarded):
    await make(guarded)
    binding = {"role": "roles/pubsub.viewer", "members": ["allUsers"]}
    body = {"policy": {"bindings": [binding | {"condition": {"expression": "true"}}]}}
    answer = await guarded.http("POST", f"/v1/{TOPIC}:setIamPolicy", body)
    assert answer.status == 501
    assert "policy.bindings[0].condition" in answer.text


async def test_entries_of_the_record_are_messages_where_there_is_a_topic(start: Start, tmp_path):
    guarded = await start(audit_log=tmp_path / "audit.log", project="shop")
    await make(guarded)
    topic = types.Topic(name=f"{PROJECT}/topics/fanlog.audit")
    await guarded.call(f"{PUBLISHER}/CreateTopic", topic, types.Topic)
    reader = types.Subscription(name=f"{PROJECT}/subscriptions/auditor", topic=topic.name)
    await guarded.call(f"{SUBSCRIBER}/CreateSubscription", reader, types.Subscription)
    await guarded.token("ci")
    # Calls that carry messages are not written down unless that is asked for.
    await publish(guarded, "")
    pull = types.PullRequest(subscription=reader.name, max_messages=10)
    entries: list[dict[str, str]] = []
    while not any(one["method"].endswith("CreateToken") for one in entries):
        answer = await guarded.call(f"{SUBSCRIBER}/Pull", pull, types.PullResponse)
        entries += [json.loads(one.message.data) for one in answer.received_messages]
    assert {one["principal"] for one in entries} == {guarded.member("admin")}
    assert {one["result"] for one in entries} == {"OK"}
    assert not any(one["method"].endswith((".Publish", ".Pull")) for one in entries)
    assert not any("flt_" in json.dumps(one) for one in entries)
