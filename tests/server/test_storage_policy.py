"""`message_storage_policy`: regions are kept when the server's is one, and refused otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import InvalidArgument, NotFound

from commands import invoke
from server.conftest import RunningServer, StartServer
from server.rest.http import Http
from server.unique import unique

FIELD = "message_storage_policy"
REGIONS = "allowed_persistence_regions"


@pytest.fixture
def here(start_server: StartServer) -> RunningServer:
    return start_server(region="europe-west1")


def regions(topic: Any) -> list[str]:
    return list(topic.message_storage_policy.allowed_persistence_regions)


def update(server: RunningServer, topic: str, *paths: str, **policy: Any) -> Any:
    request = {"topic": {"name": topic, FIELD: policy}, "update_mask": {"paths": paths}}
    return server.publisher.update_topic(request=request)


def test_an_empty_one_is_fine(server):
    topic = server.topic(message_storage_policy={})
    assert FIELD not in server.publisher.get_topic(topic=topic)
    update(server, topic, FIELD)
    server.publish(topic, b"0")


def test_the_servers_own_region_among_others_is_kept_and_shown(here):
    policy = {REGIONS: ["us-east1", "europe-west1"], "enforce_in_transit": True}
    topic = here.topic(message_storage_policy=policy)
    here.restart()
    shown = here.publisher.get_topic(topic=topic)
    assert regions(shown) == ["us-east1", "europe-west1"]
    assert shown.message_storage_policy.enforce_in_transit
    here.publish(topic, b"0")
    # Other fields are updated beside it, and it is updated as a whole and by its parts.
    retention = {"name": topic, "message_retention_duration": "600s"}
    mask = {"paths": ["message_retention_duration"]}
    here.publisher.update_topic(request={"topic": retention, "update_mask": mask})
    shown = update(here, topic, f"{FIELD}.{REGIONS}", **{REGIONS: ["europe-west1"]})
    assert regions(shown) == ["europe-west1"]
    assert shown.message_storage_policy.enforce_in_transit
    shown = update(here, topic, f"{FIELD}.enforce_in_transit")
    assert not shown.message_storage_policy.enforce_in_transit
    assert FIELD not in update(here, topic, FIELD)


@pytest.mark.parametrize("region", ["", "europe-west1"])
def test_other_regions_are_refused_with_the_servers_own(start_server, region):
    server = start_server("memory", region=region)
    own = f"is in '{region}'" if region else r"has no region \(setting region\)"
    sentence = rf"{FIELD}\.{REGIONS}: this server {own}, which is not one of 'us-east1', 'asia'"
    policy = {REGIONS: ["us-east1", "asia"]}
    with pytest.raises(InvalidArgument, match=sentence):
        server.topic(name="projects/test/topics/abroad", message_storage_policy=policy)
    with pytest.raises(NotFound):
        server.publisher.get_topic(topic="projects/test/topics/abroad")
    topic = server.topic()
    with pytest.raises(InvalidArgument, match=sentence):
        update(server, topic, FIELD, **policy)
    with pytest.raises(InvalidArgument, match="empty, with enforce_in_transit"):
        update(server, topic, f"{FIELD}.enforce_in_transit", enforce_in_transit=True)


def test_both_forms_of_rest_and_the_command_line(here):
    call = Http(here)
    name = unique("rest")
    path = f"/v1/projects/fanlog/topics/{name}"
    policy = {"allowedPersistenceRegions": ["europe-west1"]}
    made = call("PUT", path, {"messageStoragePolicy": policy}).json()
    assert made["messageStoragePolicy"]["allowedPersistenceRegions"] == ["europe-west1"]
    shown = call("GET", f"/v1/topics/{name}").json()[FIELD]
    assert shown[REGIONS] == ["europe-west1"]
    abroad = {FIELD: {REGIONS: ["asia"]}}
    assert "'asia'" in call.refused(400, "PATCH", f"/v1/topics/{name}", abroad)
    assert FIELD not in call("PATCH", f"/v1/topics/{name}", {FIELD: None}).json()
    call.close()

    def run(*args: str, exit_code: int = 0) -> str:
        result = invoke(args, env={"PUBSUB_EMULATOR_HOST": here.endpoint})
        assert result.exit_code == exit_code, result.output
        return result.output

    run("topic", "create", "told", "--storage-region", "europe-west1")
    assert "europe-west1" in run("topic", "describe", "told")
    assert "'asia'" in run("topic", "update", "told", "--storage-region", "asia", exit_code=1)
    run("topic", "update", "told", "--no-storage-regions")
    assert "europe-west1" not in run("topic", "describe", "told")


def test_a_server_that_moved_says_which_topics_are_to_be_elsewhere(start_server, caplog, tmp_path):
    folder = tmp_path / "moving"
    server = start_server(data_dir=folder, region="europe-west1")
    topic = server.topic(message_storage_policy={REGIONS: ["europe-west1"]})
    server.stop()
    caplog.clear()
    moved = start_server(data_dir=folder, region="us-east1")
    assert f"action=region_not_allowed topics=1 first={topic} region='us-east1'" in caplog.text
    # What it has stays; whoever changes something else need not change the policy.
    mask = {"paths": ["labels"]}
    request = {"topic": {"name": topic, "labels": {"a": "b"}}, "update_mask": mask}
    assert regions(moved.publisher.update_topic(request=request)) == ["europe-west1"]
