"""What nodes say of themselves and of the cluster: to anybody who asks, and to those who may."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckResponse

from commands import invoke
from fanlog.broker import bootstrap
from fanlog.v1 import cluster_pb2 as pb
from nodes.conftest import PATIENCE_S, Cluster, ClusterNode

ROLE = pb.ClusterNode


def roles(state: pb.ClusterState) -> dict[str, int]:
    return {node.name: node.role for node in state.nodes}


async def test_any_node_describes_the_cluster(cluster: Cluster):
    one, two, three = await cluster.start_all("a", "b", "c")
    for node in (one, two, three):
        found = await node.describe()
        assert (found.cluster, found.topic, found.owner) == ("shop", "shop.shards", "a")
        assert found.term == one.server.node.standing.term >= 0
        assert found.told_by == "a"
        assert roles(found) == {"a": ROLE.OWNER, "b": ROLE.STANDBY, "c": ROLE.STANDBY}
        assert found.kafka.reachable
        by_name = {each.name: each for each in found.nodes}
        assert by_name["b"].api_address == two.server.endpoint
        assert by_name["b"].lag_records < 10


async def test_a_node_that_is_gone_is_shown_as_gone(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    two.cut()
    # Nothing is heard of it: it does not even know whom to tell.
    two.server.node._herald._spoke_s = float("inf")
    await cluster.until(lambda: not cluster.has_standbys(1))
    assert roles(await one.describe()) == {"a": ROLE.OWNER, "b": ROLE.GONE}


async def test_without_an_owner_a_node_tells_what_it_knows(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    # A standby that may not own stays when the owner leaves.
    two.server.node._rest_until_s = float("inf")
    await one.stop()
    del cluster.nodes["a"]
    await cluster.until(lambda: two.server.node.known_owner.card is None)
    found = await two.describe()
    assert (found.owner, found.told_by) == ("", "b")
    assert roles(found)["b"] == ROLE.STANDBY
    status, text = await two.http("/v1/cluster")
    assert status == 200
    assert json.loads(text)["toldBy"] == "b"


async def test_rest_and_the_command_line(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    for node in (one, two):
        status, text = await node.http("/v1/cluster")
        assert status == 200
        assert json.loads(text)["owner"] == "a"
    shown = await run(two, "cluster", "describe")
    assert "owner" in shown
    assert "standby" in shown
    assert json.loads(await run(two, "cluster", "describe", "--json"))["owner"] == "a"
    told = await run(two, "cluster", "move", "b")
    assert "b owns the log, which a had" in told
    assert two.is_owner


async def run(node: ClusterNode, *command: str) -> str:
    """The output of a command that calls a node."""
    result = await asyncio.to_thread(invoke, [*command, "--endpoint", node.server.endpoint], env={})
    assert result.exit_code == 0, result.output
    return str(result.output)


async def test_readiness_says_who_is_what(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    status, text = await one.http("/readyz")
    assert (status, text.splitlines()[0]) == (200, "ready")
    assert "node a: owner in cluster shop" in text
    _, text = await two.http("/readyz")
    assert "node b: standby in cluster shop" in text
    assert "owner: a" in text


async def readiness(node: ClusterNode) -> tuple[int, str]:
    """The status of `/readyz`, and its first line."""
    status, text = await node.http("/readyz")
    return status, text.splitlines()[0]


async def health(node: ClusterNode) -> int:
    verb = node.channel.unary_unary("/grpc.health.v1.Health/Check")
    return HealthCheckResponse.FromString(await verb(b"", timeout=20)).status


async def until_said(node: ClusterNode, line: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await readiness(node))[1] != line:
            await asyncio.sleep(0.02)


async def test_while_kafka_is_away_no_node_is_ready(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    assert await health(one) == await health(two) == HealthCheckResponse.SERVING
    cluster.kafka.set_down(True)
    await until_said(one, "not ready: this node owns the log and cannot reach it: calls wait")
    # The owner tells it to those who follow.
    await until_said(two, "not ready: node a owns the log and cannot reach it just now: calls wait")
    for node in (one, two):
        assert (await readiness(node))[0] == 503
        assert await health(node) == HealthCheckResponse.NOT_SERVING
        assert "fanlog_cluster_serving 0.0" in (await node.http("/metrics"))[1]
        [owner] = [each for each in (await node.describe()).nodes if each.name == "a"]
        assert "calls wait" in owner.trouble
    cluster.kafka.set_down(False)
    for node in (one, two):
        await until_said(node, "ready")
        assert await health(node) == HealthCheckResponse.SERVING


async def test_without_an_owner_a_node_is_not_ready(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    # A standby that may not own stays when the owner leaves.
    two.server.node._rest_until_s = float("inf")
    await one.stop()
    del cluster.nodes["a"]
    await until_said(two, "not ready: no node is known to own the log just now: calls wait")
    assert await health(two) == HealthCheckResponse.NOT_SERVING
    two.server.node._rest_until_s = 0.0
    await until_said(two, "ready")


async def test_records_of_somebody_else_are_told(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make()
    cluster.kafka.put(b"from a console")
    await one.publish(b"one")
    for node in (one, two):
        await cluster.until(lambda node=node: node.server.node.standing.stray_records == 1)
        assert "1 records of the topic are no entries" in (await node.http("/readyz"))[1]
        assert "fanlog_cluster_stray_records_total 1.0" in (await node.http("/metrics"))[1]
    assert "no entries of the cluster" in (await two.describe()).kafka.troubles[0]
    assert (await readiness(two))[0] == 200


async def test_metrics_of_an_owner_and_of_a_standby(cluster: Cluster):
    one, two = await cluster.start_all("a", "b")
    await one.make()
    await two.publish(b"one")
    _, text = await one.http("/metrics")
    assert 'fanlog_cluster_role{role="owner"} 1.0' in text
    assert 'fanlog_cluster_standby_lag_records{node="b"}' in text
    assert "fanlog_published_total 1.0" in text
    _, text = await two.http("/metrics")
    assert 'fanlog_cluster_role{role="standby"} 1.0' in text
    assert "fanlog_cluster_lag_records 0.0" in text
    assert "fanlog_cluster_calls_forwarded_total" in text
    assert "fanlog_published" not in text


async def test_callers_show_who_they_are_at_any_node(cluster: Cluster, tmp_path):
    settings = {"auth": "required", "auth_dir": tmp_path / "auth"}
    one, two = await cluster.start_all("a", "b", **settings)
    token = bootstrap.token_path(tmp_path / "auth", bootstrap.ADMINISTRATOR).read_text().strip()
    for node in (one, two):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await node.describe()
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        verb = node.channel.unary_unary("/fanlog.v1.Cluster/DescribeCluster")
        shown = (("authorization", f"Bearer {token}"),)
        raw = await verb(b"", metadata=shown, timeout=20)
        assert pb.ClusterState.FromString(raw).owner == "a"
        assert (await node.http("/metrics"))[0] == 403 or (await node.http("/metrics"))[0] == 401
        assert (await node.http("/metrics", token))[0] == 200
        # For everybody, as always.
        assert (await node.http("/readyz"))[0] == 200


async def test_a_lost_administrator_is_recovered_by_a_file_of_a_node(cluster: Cluster, tmp_path):
    one = await cluster.start("a", auth="required")
    await cluster.until(lambda: one.is_owner)
    two = await cluster.start("b", auth="required")
    await cluster.until(lambda: cluster.has_standbys(1))
    folder = tmp_path / "b"
    command = ["auth", "init", "--data-dir", str(folder)]
    wrong = await asyncio.to_thread(invoke, [*command, "--token-file", str(tmp_path / "t")], env={})
    assert "recovery.token" in wrong.output
    made = await asyncio.to_thread(invoke, command, env={})
    assert made.exit_code == 0, made.output
    token = (folder / "auth" / "recovery.token").read_text().strip()
    assert token not in made.output
    assert (await one.http("/v1/cluster", token))[0] == 401
    await one.stop()
    del cluster.nodes["a"]
    await cluster.until(lambda: two.is_owner)
    assert (await two.http("/v1/cluster", token))[0] == 200
    # It is no new token at the next start, also when it was revoked.
    [kept] = (folder / "auth").glob("admin-*.token")
    assert kept.read_text().strip() == token
    assert not (folder / "auth" / "recovery.token").exists()


async def test_the_next_owner_knows_the_accounts_of_the_first(cluster: Cluster, tmp_path):
    one = await cluster.start("a", auth="required", auth_dir=tmp_path / "one")
    await cluster.until(lambda: one.is_owner)
    two = await cluster.start("b", auth="required", auth_dir=tmp_path / "two")
    await cluster.until(lambda: cluster.has_standbys(1))
    await one.stop()
    del cluster.nodes["a"]
    await cluster.until(lambda: two.is_owner)
    token = bootstrap.token_path(tmp_path / "one", bootstrap.ADMINISTRATOR).read_text().strip()
    assert (await two.http("/v1/cluster", token))[0] == 200
    assert not bootstrap.token_path(tmp_path / "two", bootstrap.ADMINISTRATOR).exists()
