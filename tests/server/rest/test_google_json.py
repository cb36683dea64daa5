"""What is particular to JSON over HTTP: spellings, base64, masks, bodies, codes, long polls."""

from __future__ import annotations

import base64
import http.client
import inspect
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from google.pubsub_v1.services.publisher.transports import rest_base as publisher_rest
from google.pubsub_v1.services.schema_service.transports import rest_base as schema_rest
from google.pubsub_v1.services.subscriber.transports import rest_base as subscriber_rest

from fanlog import errors as tree
from fanlog import limits
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.config import Config
from fanlog.errors import FanlogError
from fanlog.server.rest import google_json
from fanlog.server.rest.errors import HTTP_CODES
from server.conftest import PATIENCE_S, RunningServer
from server.rest.http import Http
from server.unique import unique


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


OFFICIAL = (publisher_rest, subscriber_rest, schema_rest)


class TestTheTable:
    def test_every_binding_of_the_official_client_is_served(self):
        served = {
            (one.http, one.path, one.method.partition(".")[2], one.body)
            for one in google_json.BINDINGS
        }
        for module in OFFICIAL:
            for rule in official_rules(module):
                assert rule in served, rule

    def test_no_row_is_beyond_it(self):
        official = {rule for module in OFFICIAL for rule in official_rules(module)}
        for one in google_json.BINDINGS:
            rule = (one.http, one.path, one.method.partition(".")[2], one.body)
            assert rule in official

    def test_errors_have_the_codes_google_gives_but_for_those_of_http_itself(self):
        of_http = {413, 415, 405}
        for error in vars(tree).values():
            if inspect.isclass(error) and issubclass(error, FanlogError):
                expected = {HTTP_CODES[error.grpc_status], *of_http}
                assert error.http_status in expected, error


def official_rules(module: Any) -> list[tuple[str, str, str, str]]:
    """HTTP method, path, verb and body of each binding that the official client knows."""
    found = []
    source = inspect.getsource(module)
    for part in source.split("class _Base")[1:]:
        verb = part[: part.index(":")]
        rules = re.finditer(
            r'"method": "(\w+)",\s+"uri": "([^"]+)",(?:\s+"body": "([^"]+)")?', part
        )
        found += [(rule[1].upper(), rule[2], verb, rule[3] or "") for rule in rules]
    assert len(found) > 10
    return found


class TestSpellings:
    def test_fields_and_masks_in_both(self, server, call):
        topic, name = server.topic(), unique("rest-sub")
        path = f"/v1/projects/test/subscriptions/{name}"
        made = call("PUT", path, {"topic": topic, "ack_deadline_seconds": 20}).json()
        assert made["ackDeadlineSeconds"] == 20
        for mask, field, value in (
            ("ackDeadlineSeconds", "ack_deadline_seconds", 30),
            ("ack_deadline_seconds", "ackDeadlineSeconds", 40),
        ):
            body = {"subscription": {field: value}, "updateMask": mask}
            assert call("PATCH", path, body).json()["ackDeadlineSeconds"] == value
        body = {"subscription": {"ackDeadlineSeconds": 50}}
        changed = call("PATCH", f"{path}?updateMask=ackDeadlineSeconds", body)
        assert changed.json()["ackDeadlineSeconds"] == 50

    def test_one_field_in_both_is_refused(self, server, call):
        body = {"ackIds": ["a"], "ack_ids": ["b"]}
        _, subscription = server.topic_and_subscription()
        assert "ack_ids: given twice" in call.refused(
            400, "POST", f"/v1/{subscription}:acknowledge", body
        ).replace("'", "")

    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"lables": {}}, "lables"),
            ({"labels": {"a": 1}}, "labels.a"),
            ({"schemaSettings": {"schma": "x"}}, "schemaSettings.schma"),
            ({"messageRetentionDuration": 600}, "messageRetentionDuration"),
            ({"messageRetentionDuration": "600"}, "messageRetentionDuration"),
            ({"state": "WELL"}, "state"),
            ({"satisfiesPzs": "yes"}, "satisfiesPzs"),
            ([], "the body"),
            ("x", "the body"),
        ],
    )
    def test_what_does_not_fit_is_named_by_its_path(self, call, body, path):
        sentence = call.refused(400, "PUT", f"/v1/projects/test/topics/{unique('rest-t')}", body)
        assert sentence.replace("'", "").startswith(f"{path}:")

    def test_a_name_in_the_body_must_be_that_of_the_path(self, call):
        name = f"projects/test/topics/{unique('rest-topic')}"
        assert call("PUT", f"/v1/{name}", {"name": name}).status_code == 200
        sentence = call.refused(400, "PUT", f"/v1/{name}", {"name": "projects/test/topics/xyz"})
        assert "the body says" in sentence

    def test_null_is_not_set(self, call):
        name = f"projects/test/topics/{unique('rest-topic')}"
        assert "labels" not in call("PUT", f"/v1/{name}", {"labels": None}).json()

    def test_one_of_two(self, server, call):
        _, subscription = server.topic_and_subscription()
        body = {"time": "2026-01-01T00:00:00Z", "snapshot": "projects/test/snapshots/abc"}
        assert "excludes" in call.refused(400, "POST", f"/v1/{subscription}:seek", body)

    @pytest.mark.parametrize(
        "time", ["yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01", 5]
    )
    def test_times(self, server, call, time):
        _, subscription = server.topic_and_subscription()
        sentence = call.refused(400, "POST", f"/v1/{subscription}:seek", {"time": time})
        assert sentence.startswith("time:")

    def test_numbers_may_be_quoted_and_must_be_whole(self, server, call):
        _, subscription = server.topic_and_subscription()
        path = f"/v1/{subscription}:pull"
        for number in (1, "1", 1.0):
            body = {"maxMessages": number, "returnImmediately": True}
            assert call("POST", path, body).json() == {}
        for number in (1.5, "one", True, [1], 2**31, "99999999999999999999"):
            body = {"maxMessages": number, "returnImmediately": True}
            assert call.refused(400, "POST", path, body).startswith("maxMessages:")


class TestBase64:
    @pytest.mark.parametrize("text", ["-_-_", "+/+/", "YQ", "YQ=="])
    def test_either_alphabet_padded_or_not(self, server, call, text):
        topic, subscription = server.topic_and_subscription()
        response = call("POST", f"/v1/{topic}:publish", {"messages": [{"data": text}]})
        assert response.status_code == 200
        [received] = server.pull(subscription)
        padded = text.replace("-", "+").replace("_", "/").rstrip("=")
        assert received.message.data == base64.b64decode(padded + "=" * (-len(padded) % 4))

    @pytest.mark.parametrize("text", ["hello world!", "Y", "YQ==YQ==", "YQ\n==", "é", 5, {}])
    def test_anything_else_is_refused(self, server, call, text):
        topic = server.topic()
        body = {"messages": [{"data": "YQ=="}, {"data": text}]}
        sentence = call.refused(400, "POST", f"/v1/{topic}:publish", body)
        assert sentence.startswith("messages[1].data:")


class TestPublish:
    def test_both_roads_publish_the_same(self, server, call):
        topic, subscription = server.topic_and_subscription()
        message = {"data": b64(b"x"), "attributes": {"k": "v", "e": ""}}
        messages = [
            message | {"orderingKey": "key"},
            message | {"ordering_key": "key"},
        ]
        call("POST", f"/v1/{topic}:publish", {"messages": messages})
        # A message id is not the sender's to say: this one is read field by field.
        messages = [one | {"messageId": "5"} for one in messages]
        call("POST", f"/v1/{topic}:publish", {"messages": messages})
        received = [one.message for one in server.pull(subscription)]
        assert len(received) == 4
        for one in received:
            assert one.data == b"x"
            assert one.attributes == {"k": "v", "e": ""}
            assert one.ordering_key == "key"

    @pytest.mark.parametrize(
        ("message", "path"),
        [
            ({"data": "YQ==", "colour": "red"}, "messages[0].colour"),
            ({"data": "YQ==", "attributes": {"a": 1}}, "messages[0].attributes.a"),
            ({"data": "YQ==", "attributes": []}, "messages[0].attributes"),
            ({"data": "YQ==", "orderingKey": 1}, "messages[0].orderingKey"),
            ({"data": "YQ==", "orderingKey": "a", "ordering_key": "b"}, "messages[0].ordering_key"),
            ("YQ==", "messages[0]"),
        ],
    )
    def test_what_does_not_fit_is_named_by_its_path(self, server, call, message, path):
        topic = server.topic()
        sentence = call.refused(400, "POST", f"/v1/{topic}:publish", {"messages": [message]})
        assert sentence.replace("'", "").startswith(f"{path}:")

    def test_a_publish_time_of_the_answer_is_a_time(self, server, call):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        answer = call("POST", f"/v1/{subscription}:pull", {"maxMessages": 1}).json()
        [received] = answer["receivedMessages"]
        time_text = received["message"]["publishTime"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3,9})?Z", time_text)


class TestBodies:
    def test_bad_json_is_refused_with_its_place(self, server, call):
        for text, place in (("{\n  ]", "line 2, column 3"), ("{", "line 1"), ("\xff", "line 1")):
            sentence = call.refused(
                400,
                "PUT",
                "/v1/projects/test/topics/abc",
                data=text.encode("latin-1"),
                headers={"content-type": "application/json"},
            )
            assert "not JSON" in sentence
            assert place in sentence

    def test_deep_json_is_refused(self, call):
        text = "[" * 100_000
        headers = {"content-type": "application/json"}
        call.refused(400, "PUT", "/v1/projects/test/topics/abc", data=text, headers=headers)

    @pytest.mark.parametrize(
        "media_type",
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"],
    )
    def test_other_types_are_refused(self, call, media_type):
        headers = {"content-type": media_type}
        path = "/v1/projects/test/topics/abc"
        assert "content-type" in call.refused(415, "PUT", path, data="{}", headers=headers)

    def test_compressed_bodies_are_refused(self, call):
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        path = "/v1/projects/test/topics/abc"
        assert "gzip" in call.refused(415, "PUT", path, data=b"\x1f\x8b", headers=headers)

    def test_no_body_is_an_empty_one(self, call):
        name = unique("rest-topic")
        assert call("PUT", f"/v1/projects/test/topics/{name}").status_code == 200

    def test_a_body_where_none_belongs(self, server, call):
        topic = server.topic()
        assert "the body" in call.refused(400, "GET", f"/v1/{topic}", {"a": 1})

    @pytest.mark.parametrize("is_chunked", [False, True])
    def test_a_body_that_is_too_large(self, server, call, is_chunked):
        topic = server.topic()
        large = orjson.dumps({"messages": [{"data": "A" * (17 * 1024 * 1024)}]})
        parts: Any = iter([large[: 1 << 20], large[1 << 20 :]]) if is_chunked else large
        headers = {"content-type": "application/json"}
        path = f"/v1/{topic}:publish"
        sentence = call.refused(413, "POST", path, data=parts, headers=headers)
        assert "16777216" in sentence

    def test_a_publish_that_is_too_large(self, server, call):
        topic = server.topic()
        body = {"messages": [{"data": b64(bytes(10_000_000))}]}
        assert "10000000" in call.refused(413, "POST", f"/v1/{topic}:publish", body)

    def test_the_largest_publish_passes(self, server, call):
        topic = server.topic()
        body = {"messages": [{"data": b64(bytes(9_999_000))}]}
        assert call("POST", f"/v1/{topic}:publish", body).status_code == 200


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1",
            "/v1/",
            "/v1/projects",
            "/v1/projects/p",
            "/v1/projects/p/topics/",
            "/v1/projects//topics",
            "/v1/projects/p/topics/t:vanish",
            "/v1/projects/p/topics/t/",
            "/v1/projects/p/queues",
            "/v2/projects/p/topics",
            "/console",
        ],
    )
    def test_nothing_there(self, call, path):
        assert "nothing is served" in call.refused(404, "GET", path)

    def test_other_methods(self, call):
        path = "/v1/projects/p/topics/abc"
        assert "takes DELETE, GET, PATCH, PUT" in call.refused(405, "POST", path)
        assert call("POST", path).headers["allow"] == "DELETE, GET, PATCH, PUT"
        assert call("HEAD", path).status_code == 405

    def test_names_with_percent_signs(self, server, call):
        name = unique("a+b~c.d%25")
        made = call("PUT", f"/v1/projects/test/topics/{name}").json()
        assert made["name"] == f"projects/test/topics/{name.replace('%25', '%')}"
        assert server.publisher.get_topic(topic=made["name"])

    def test_a_slash_in_a_name_is_no_way_to_another_place(self, server, call):
        sentence = call.refused(400, "GET", "/v1/projects/a%2Fb/topics/abc")
        assert "not of the form" in sentence

    def test_names_that_are_not_text(self, server):
        endpoint = server.http("").removeprefix("http://")
        connection = http.client.HTTPConnection(endpoint, timeout=PATIENCE_S)
        connection.request("GET", "/v1/projects/%ff/topics")
        assert connection.getresponse().status == 400
        connection.close()

    def test_projects_with_a_domain(self, server, call):
        assert call("GET", "/v1/projects/example.com:p/topics").json() == {}


class TestQueries:
    def test_paging_in_both_spellings(self, server, call):
        project = unique("project")
        for _ in range(3):
            server.publisher.create_topic(name=f"projects/{project}/topics/{unique('rest-t')}")
        path = f"/v1/projects/{project}/topics"
        first = call("GET", path, params={"pageSize": 2}).json()
        token = first["nextPageToken"]
        second = call("GET", path, params={"page_size": 2, "page_token": token}).json()
        assert len(first["topics"]) == 2
        assert len(second["topics"]) == 1
        assert "nextPageToken" not in second

    @pytest.mark.parametrize(
        ("query", "word"),
        [
            ("colour=red", "colour"),
            ("project=other", "project"),
            ("pageSize=x", "pageSize"),
            ("pageSize=1&page_size=2", "page_size"),
            ("pageToken=x", "page_token"),
            ("pageToken.x=1", "pageToken.x"),
            ("alt=xml", "alt"),
            ("prettyPrint=maybe", "prettyPrint"),
            ("fields=topics", "fields"),
            ("pageToken=%ff", "UTF-8"),
            ("&".join("a=b" for _ in range(200)), "parameters"),
        ],
    )
    def test_what_does_not_fit(self, call, query, word):
        assert word in call.refused(400, "GET", f"/v1/projects/p/topics?{query}")

    def test_enums_by_name_or_number(self, server, call):
        topic = server.topic()
        assert call("GET", f"/v1/{topic}").json()["state"] == "ACTIVE"
        path = f"/v1/{topic}?%24alt=json%3Benum-encoding%3Dint"
        assert call("GET", path).json()["state"] == 1
        assert "\n" in call("GET", f"/v1/{topic}?prettyPrint=true").text


class TestPressure:
    def test_backpressure_is_429_with_a_time_to_come_again(self, server, call, monkeypatch):
        topic = server.topic()
        monkeypatch.setattr(limits, "WRITER_BACKLOG_BYTES_MAX", 0)
        body = {"messages": [{"data": "YQ=="}]}
        response = call("POST", f"/v1/{topic}:publish", body)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert response.json()["error"]["status"] == "RESOURCE_EXHAUSTED"

    def test_an_error_of_ours_is_500_without_its_secrets(self, server, call, monkeypatch):
        topic = server.topic()

        def broken(*_: object) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(PublishAdmission, "admit_plain", broken)
        response = call("POST", f"/v1/{topic}:publish", {"messages": [{"data": "YQ=="}]})
        assert response.status_code == 500
        assert "secret" not in response.text

    def test_while_draining(self, start_server):
        server = start_server(engine="memory")
        topic, subscription = server.topic_and_subscription()
        call = Http(server)
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(call, "POST", f"/v1/{subscription}:pull", {"maxMessages": 1})
            server.await_waiters(subscription, 1)
            server.drain_broker()
            answers = [
                pull.result(PATIENCE_S),
                call("POST", f"/v1/{subscription}:pull", {"maxMessages": 1}),
                call("POST", f"/v1/{topic}:publish", {"messages": [{"data": "YQ=="}]}),
            ]
        for response in answers:
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            assert "stopping" in response.json()["error"]["message"]
        call.close()

    def test_stopping_sends_a_waiting_pull_away_at_once(self, start_server):
        server = start_server(engine="memory")
        _, subscription = server.topic_and_subscription()
        call = Http(server)
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(call, "POST", f"/v1/{subscription}:pull", {"maxMessages": 1})
            server.await_waiters(subscription, 1)
            server.stop()
            assert pull.result(PATIENCE_S).status_code == 503
        call.close()


class TestLongPolls:
    def test_a_caller_that_goes_away_ends_its_wait(self, server):
        topic, subscription = server.topic_and_subscription()
        host, port = server.http("").removeprefix("http://").split(":")
        body = b'{"maxMessages": 1}'
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/%b:pull HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (subscription.encode(), len(body), body)
            )
            server.await_waiters(subscription, 1)
        late = time.monotonic() + PATIENCE_S
        while server.run(waiting(server, subscription)):
            assert time.monotonic() < late
        # Nobody is given the message in its place.
        server.publish(topic, b"x")
        assert len(server.pull(subscription)) == 1

    def test_a_callers_patience(self, server, call):
        _, subscription = server.topic_and_subscription()
        begun = time.monotonic()
        headers = {"x-server-timeout": "0.2"}
        path = f"/v1/{subscription}:pull"
        assert call("POST", path, {"maxMessages": 1}, headers=headers).json() == {}
        assert time.monotonic() - begun < limits.PULL_WAIT_S / 2
        headers = {"x-server-timeout": "soon"}
        sentence = call.refused(400, "POST", path, {"maxMessages": 1}, headers=headers)
        assert "x-server-timeout" in sentence


async def waiting(server: RunningServer, subscription: str) -> int:
    found, feed = server.broker.attach(subscription)
    server.broker.detach(found, feed)
    return feed.waiting


def test_a_hint_comes_as_a_header(server, call):
    stem = unique("Order")
    for event in ("Placed", "Sent"):
        server.topic(name=f"projects/test/topics/{stem}{event}")
    body = {"topic": f"projects/test/topics/{stem}.*"}
    response = call("PUT", f"/v1/projects/test/subscriptions/{unique('rest-sub')}", body)
    said = f"'{stem}*' would match '{stem}Placed', '{stem}Sent'"
    assert response.headers["fanlog-hint"].endswith(said)
    short = {"name": unique("rest-sub"), "topic": body["topic"]}
    assert call("POST", "/v1/subscriptions", short).headers["fanlog-hint"].endswith(said)


def test_the_limit_of_a_body_is_a_setting(loop_thread):
    config = Config(port=0, http_port=0, memory=True, http_max_bytes=100_000)
    server = RunningServer(loop_thread, config, None)
    call = Http(server)
    topic = server.topic()
    body = {"messages": [{"data": "A" * 100_000}]}
    assert "100000" in call.refused(413, "POST", f"/v1/{topic}:publish", body)
    call.close()
    server.stop()
