"""What is particular to the short form; what it shares is in `test_surfaces`."""

from __future__ import annotations

import base64
import re

import pytest

from fanlog.config import PROJECT_DEFAULT, Config, resolve
from fanlog.push.senders import host_resolver
from server.conftest import RunningServer
from server.receiver import receiving
from server.rest.http import Http
from server.unique import unique


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def topic(call):
    name = unique("short")
    assert call("POST", "/v1/topics", {"name": name}).status_code == 201
    return name


@pytest.fixture
def subscription(call, topic):
    name = unique("short-sub")
    body = {"name": name, "topic": topic}
    assert call("POST", "/v1/subscriptions", body).status_code == 201
    return name


def test_the_whole_way(call, topic, subscription):
    message = {
        "data": base64.b64encode(b"two chairs").decode(),
        "attributes": {"region": "eu"},
        "ordering_key": "k",
    }
    response = call("POST", f"/v1/topics/{topic}:publish", {"messages": [message]})
    assert response.status_code == 200
    [message_id] = response.json()["message_ids"]

    response = call("POST", f"/v1/subscriptions/{subscription}:pull", {"max_messages": 5})
    assert response.status_code == 200
    [received] = response.json()["received_messages"]
    assert received.keys() == {"ack_id", "message"}
    time = received["message"].pop("publish_time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", time)
    assert received["message"] == message | {"id": message_id}

    body = {"ack_ids": [received["ack_id"]]}
    response = call("POST", f"/v1/subscriptions/{subscription}:ack", body)
    assert (response.status_code, response.content) == (204, b"")
    body = {"return_immediately": True}
    response = call("POST", f"/v1/subscriptions/{subscription}:pull", body)
    assert response.json() == {"received_messages": []}
    assert call("DELETE", f"/v1/subscriptions/{subscription}").status_code == 204
    assert call("DELETE", f"/v1/topics/{topic}").status_code == 204
    assert call("GET", f"/v1/topics/{topic}").status_code == 404


class TestNames:
    def test_it_is_the_project_of_the_server(self, call, topic):
        name = f"projects/fanlog/topics/{topic}"
        assert call("GET", f"/v1/{name}").json()["name"] == name

    def test_another_project_by_a_setting(self, loop_thread):
        assert resolve({}, {}).project == "fanlog"
        config = Config(port=0, http_port=0, memory=True, project="mine")
        server = RunningServer(loop_thread, config, None)
        call = Http(server)
        call("POST", "/v1/topics", {"name": "orders"})
        found = call("GET", "/v1/projects/mine/topics/orders").json()
        assert found["name"] == "projects/mine/topics/orders"
        call.close()
        server.stop()

    def test_a_topic_of_another_project_in_full(self, server, call):
        topic, dead = server.topic(), server.topic()
        body = {"name": unique("short-sub"), "topic": topic, "dead_letter": {"topic": dead}}
        made = call("POST", "/v1/subscriptions", body).json()
        assert made["topic"] == topic
        assert made["dead_letter"]["topic"] == dead

    @pytest.mark.parametrize("name", ["a/b", "x", "projects/p/topics/abc", "", 5])
    def test_a_name_is_an_id(self, call, name):
        sentence = call.refused(400, "POST", "/v1/topics", {"name": name})
        assert sentence.startswith(("topic", "name"))

    def test_what_exists_already(self, call, topic, subscription):
        call.refused(409, "POST", "/v1/topics", {"name": topic})
        body = {"name": subscription, "topic": topic}
        call.refused(409, "POST", "/v1/subscriptions", body)


class TestSubscriptions:
    def test_defaults(self, call, topic, subscription):
        found = call("GET", f"/v1/subscriptions/{subscription}").json()
        assert found["name"] == subscription
        assert found["topic"] == topic
        assert found["mode"] == "pull"
        assert found["ack_deadline_seconds"] == 30
        assert "dead_letter" not in found
        assert "push_config" not in found

    def test_everything(self, call, topic):
        name, dead = unique("short-sub"), unique("short")
        call("POST", "/v1/topics", {"name": dead})
        body = {
            "name": name,
            "topic": topic,
            "mode": "pull",
            "ack_deadline_seconds": 60,
            "filter": 'attributes.a = "b"',
            "dead_letter": {"topic": dead, "max_delivery_attempts": 3},
            "retry_policy": {"minimum_backoff": "1s", "maximum_backoff": "5s"},
            "enable_message_ordering": True,
            "labels": {"a": "b"},
        }
        made = call("POST", "/v1/subscriptions", body).json()
        body["labels"] = {"a": "b", "fanlog-max-outstanding-messages": "1000"}
        body["max_outstanding_messages"] = 1_000
        assert made.items() >= body.items()
        assert call("GET", f"/v1/subscriptions/{name}").json() == made

    def test_patch_changes_what_it_names(self, call, topic, subscription):
        path = f"/v1/subscriptions/{subscription}"
        dead = unique("short")
        call("POST", "/v1/topics", {"name": dead})
        changed = call("PATCH", path, {"dead_letter": {"topic": dead}, "filter": "event=a"}).json()
        assert changed["dead_letter"] == {"topic": dead, "max_delivery_attempts": 5}
        changed = call("PATCH", path, {"dead_letter": {"max_delivery_attempts": 9}}).json()
        assert changed["dead_letter"] == {"topic": dead, "max_delivery_attempts": 9}
        assert changed["filter"] == "event=a"
        changed = call("PATCH", path, {"ack_deadline_seconds": 99, "mode": "pull"}).json()
        assert changed["ack_deadline_seconds"] == 99

    def test_patch_with_null_goes_back_to_the_default(self, call, subscription):
        path = f"/v1/subscriptions/{subscription}"
        dead = unique("short")
        call("POST", "/v1/topics", {"name": dead})
        fields = {"dead_letter": {"topic": dead}, "filter": "event=a", "ack_deadline_seconds": 99}
        call("PATCH", path, fields)
        changed = call("PATCH", path, dict.fromkeys(fields)).json()
        assert "dead_letter" not in changed
        assert "filter" not in changed
        assert changed["ack_deadline_seconds"] == 30

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            ({}, "the body"),
            ({"colour": "red"}, "colour"),
            ({"topic": "other-topic"}, "topic"),
            ({"name": "other"}, "name"),
            ({"push_config": {}}, "push_config"),
            ({"dead_letter_policy": {}}, "dead_letter_policy"),
            ({"dead_letter": {}}, "dead_letter"),
            ({"dead_letter": {"topik": "x"}}, "dead_letter.topik"),
            ({"dead_letter": {"topic": 5}}, "dead_letter.topic"),
            ({"dead_letter": {"topic": "x"}}, "dead_letter.topic"),
            ({"dead_letter": []}, "dead_letter"),
            ({"mode": "pul"}, "mode"),
            ({"mode": "push"}, "delivery_url"),
            ({"delivery_url": "http://x"}, "delivery_url"),
            ({"ack_deadline_seconds": 5}, "ack_deadline_seconds"),
            ({"filter": "a ="}, "filter"),
            ([], "the body"),
        ],
    )
    def test_what_does_not_fit(self, call, subscription, body, word):
        path = f"/v1/subscriptions/{subscription}"
        assert word in call.refused(400, "PATCH", path, body)

    @pytest.mark.parametrize("missing", ["name", "topic"])
    def test_what_is_needed(self, call, topic, missing):
        body = {"name": unique("short-sub"), "topic": topic}
        body.pop(missing)
        assert call.refused(400, "POST", "/v1/subscriptions", body).startswith(f"{missing}:")

    def test_push(self, call, topic):
        body = {
            "name": unique("short-sub"),
            "topic": topic,
            "mode": "push",
            "delivery_url": "http://127.0.0.1:1/hook",
        }
        made = call("POST", "/v1/subscriptions", body).json()
        assert (made["mode"], made["delivery_url"]) == ("push", body["delivery_url"])
        body |= {"name": unique("short-sub"), "delivery_url": "http://10.0.0.1/hook"}
        assert call.refused(400, "POST", "/v1/subscriptions", body).startswith("delivery_url")

    def test_errors_call_fields_what_they_are_called_here(self, call, topic):
        dead = unique("short")
        call("POST", "/v1/topics", {"name": dead})
        body = {
            "name": unique("short-sub"),
            "topic": topic,
            "dead_letter": {"topic": dead, "max_delivery_attempts": 1000},
        }
        sentence = call.refused(400, "POST", "/v1/subscriptions", body)
        assert sentence.startswith("dead_letter.max_delivery_attempts")


class TestMessages:
    def test_ten_messages_unless_told(self, call, topic, subscription):
        body = {"messages": [{"data": "YQ=="}] * 15}
        assert len(call("POST", f"/v1/topics/{topic}:publish", body).json()["message_ids"]) == 15
        pulled = call("POST", f"/v1/subscriptions/{subscription}:pull").json()
        assert len(pulled["received_messages"]) == 10

    @pytest.mark.parametrize("number", [0, -1, 1001, "many", 1.5])
    def test_how_many_may_be_asked_for(self, call, subscription, number):
        path = f"/v1/subscriptions/{subscription}:pull"
        assert "max_messages" in call.refused(400, "POST", path, {"max_messages": number})

    def test_a_plain_nack(self, call, topic, subscription):
        call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": "YQ=="}]})
        path = f"/v1/subscriptions/{subscription}"
        for _ in range(2):
            pulled = call("POST", f"{path}:pull").json()
            [one] = pulled["received_messages"]
            body = {"ack_ids": [one["ack_id"]], "requeue": True}
            response = call("POST", f"{path}:nack", body)
            assert (response.status_code, response.content) == (204, b"")

    def test_a_nack_that_says_more(self, call, server, topic):
        letters = server.topic()
        reader = server.subscription(letters)
        name = unique("short-sub")
        dead_letter = {"topic": letters, "max_delivery_attempts": 5}
        body = {"name": name, "topic": topic, "dead_letter": dead_letter}
        call("POST", "/v1/subscriptions", body)
        call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": "YQ=="}]})
        path = f"/v1/subscriptions/{name}"
        [one] = call("POST", f"{path}:pull").json()["received_messages"]
        body = {"ack_ids": [one["ack_id"]], "requeue": False, "reason": "broken ✗"}
        assert call("POST", f"{path}:nack", body).status_code == 204
        [letter] = server.await_pull(reader)
        reason = letter.message.attributes["fanlog-dead-letter-reason"]
        assert reason == "1 of 5 delivery attempts, nacked for good: broken ✗"

    def test_a_nack_without_a_policy_is_for_another_time(self, call, topic, subscription):
        call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": "YQ=="}]})
        path = f"/v1/subscriptions/{subscription}"
        [one] = call("POST", f"{path}:pull").json()["received_messages"]
        body = {"ack_ids": [one["ack_id"]], "requeue": False}
        assert "dead letter policy" in call.refused(400, "POST", f"{path}:nack", body)
        body = {"ack_ids": [one["ack_id"]], "delay_seconds": 300}
        assert call("POST", f"{path}:nack", body).status_code == 204
        pulled = call("POST", f"{path}:pull", {"return_immediately": True}).json()
        assert pulled["received_messages"] == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [("requeue", "no"), ("delay_seconds", "5"), ("delay_seconds", -1), ("reason", 7)],
    )
    def test_other_nacks_are_refused_by_name(self, call, subscription, field, value):
        path = f"/v1/subscriptions/{subscription}:nack"
        body = {"ack_ids": ["x"], field: value}
        assert field.replace("_", "-") in call.refused(400, "POST", path, body).replace("_", "-")

    @pytest.mark.parametrize("verb", ["ack", "nack", "modify_ack_deadline"])
    @pytest.mark.parametrize("body", [{}, {"ack_ids": None}, {"ack_ids": "x"}, {"ids": []}])
    def test_what_is_needed(self, call, subscription, verb, body):
        path = f"/v1/subscriptions/{subscription}:{verb}"
        if verb == "modify_ack_deadline":
            body = body | {"ack_deadline_seconds": 20}
        assert "ids" in call.refused(400, "POST", path, body)

    def test_too_large(self, call, topic):
        body = {"messages": [{"data": "AAAA" * 3_500_000}]}
        call.refused(413, "POST", f"/v1/topics/{topic}:publish", body)

    def test_messages_that_are_read_field_by_field(self, call, topic, subscription):
        body = {"messages": [{"data": "YQ", "attributes": {}}]}
        assert call("POST", f"/v1/topics/{topic}:publish", body).status_code == 200
        body = {"messages": [{"data": "YQ", "colour": "red"}]}
        assert "colour" in call.refused(400, "POST", f"/v1/topics/{topic}:publish", body)

    def test_seek_needs_one_target(self, call, subscription):
        path = f"/v1/subscriptions/{subscription}:seek"
        call.refused(400, "POST", path, {})
        body = {"time": "2026-01-01T00:00:00Z", "snapshot": "abc"}
        call.refused(400, "POST", path, body)

    def test_query_parameters_are_refused(self, call, subscription):
        path = f"/v1/subscriptions/{subscription}:pull?max_messages=5"
        assert "max_messages" in call.refused(400, "POST", path)


def test_draining(start_server):
    server = start_server(engine="memory")
    call = Http(server)
    call("POST", "/v1/topics", {"name": "orders"})
    server.drain_broker()
    body = {"messages": [{"data": "YQ=="}]}
    response = call("POST", "/v1/topics/orders:publish", body)
    assert response.status_code == 503
    assert "retry-after" in response.headers
    call.close()


class TestPush:
    """Settings of push and of retries, which are labels everywhere else."""

    def made(self, call, topic, **fields):
        response = call(
            "POST", "/v1/subscriptions", {"name": unique("hook"), "topic": topic} | fields
        )
        assert response.status_code == 201, response.text
        return response.json()

    def changed(self, call, made, **fields):
        response = call("PATCH", f"/v1/subscriptions/{made['name']}", fields)
        assert response.status_code == 200, response.text
        return response.json()

    def test_the_body_is_what_a_pull_answers(self, call, server, topic, subscription):
        with receiving(lambda _: 204) as web:
            made = self.made(call, topic, mode="push", delivery_url=web.url())
            assert (made["push_body"], made["push_timeout_seconds"]) == ("plain", 10)
            message = {
                "data": base64.b64encode(b"two chairs").decode(),
                "attributes": {"region": "eu"},
                "ordering_key": "k",
            }
            call("POST", f"/v1/topics/{topic}:publish", {"messages": [message]})
            [got] = web.wait(1)
        pulled = call("POST", f"/v1/subscriptions/{subscription}:pull", {}).json()
        [received] = pulled["received_messages"]
        assert got.json.keys() == {"message", "ack_id"}
        assert got.json["message"] == received["message"]

    @pytest.mark.parametrize(("verb", "comes_again"), [("ack", False), ("nack", True)])
    def test_its_ack_id_is_one(self, call, topic, verb, comes_again):
        """An endpoint that does not say 2xx may settle by itself, before or after it answers."""
        statuses = []
        seen = []

        def answer(got):
            # Noted first: a nack brings the message again before it is answered.
            seen.append(got)
            if len(seen) == 1:
                path = f"/v1/subscriptions/{made['name']}:{verb}"
                statuses.append(call("POST", path, {"ack_ids": [got.json["ack_id"]]}).status_code)
                return 500
            return 204

        with receiving(answer) as web:
            made = self.made(call, topic, mode="push", delivery_url=web.url())
            call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": "eA=="}]})
            web.wait(2 if comes_again else 1)
            path = f"/v1/subscriptions/{made['name']}/snapshot"
            while call("GET", path).json()["unacked_messages"] or not statuses:
                pass
        assert statuses == [204]
        assert len(web.received) == (2 if comes_again else 1)

    @pytest.mark.parametrize("url", ["grpc://127.0.0.1:9", "topic:target"])
    def test_only_http_has_bodies(self, call, topic, url):
        call("POST", "/v1/topics", {"name": "target"})
        made = self.made(call, topic, mode="push", delivery_url=url)
        assert "push_body" not in made
        assert not made.get("labels")
        web = "http://127.0.0.1:9/"
        made = self.changed(call, made, mode="push", delivery_url=web)
        assert made["push_body"] == "plain"
        made = self.changed(call, made, mode="push", delivery_url=url)
        assert not made.get("labels")

    def test_another_body_is_asked_for(self, call, topic):
        push = {"mode": "push", "delivery_url": "http://127.0.0.1:9/"}
        made = self.made(call, topic, **push, push_body="event")
        assert made["push_body"] == made["labels"]["fanlog-push-body"] == "event"
        made = self.made(call, topic, **push, labels={"fanlog-push-body": "wrapped"})
        assert made["push_body"] == "wrapped"
        assert self.changed(call, made, push_body="cloudevents")["push_body"] == "cloudevents"
        assert self.changed(call, made, **push)["push_body"] == "cloudevents"
        assert self.changed(call, made, labels={"team": "a"})["labels"] == {
            "fanlog-push-body": "cloudevents",
            "team": "a",
        }
        assert self.changed(call, made, push_body=None)["push_body"] == "plain"

    def test_one_that_google_made_keeps_its_body(self, call, server, topic):
        name = unique("official")
        body = {
            "topic": f"projects/{PROJECT_DEFAULT}/topics/{topic}",
            "pushConfig": {"pushEndpoint": "http://127.0.0.1:9/"},
        }
        path = f"/v1/projects/{PROJECT_DEFAULT}/subscriptions/{name}"
        assert call("PUT", path, body).status_code == 200
        found = call("GET", f"/v1/subscriptions/{name}").json()
        assert found["push_body"] == "wrapped"
        found = self.changed(call, found, mode="push", delivery_url="http://127.0.0.1:8/")
        assert found["push_body"] == "wrapped"

    def test_time_out_and_retry(self, call, topic, subscription):
        push = {"mode": "push", "delivery_url": "http://127.0.0.1:9/"}
        made = self.made(call, topic, **push, push_timeout_seconds=600, retry="first-immediate")
        assert (made["push_timeout_seconds"], made["retry"]) == (600, "first-immediate")
        made = self.changed(call, made, push_timeout_seconds=1, retry=None)
        assert made["push_timeout_seconds"] == 1
        assert "retry" not in made
        assert self.changed(call, made, push_timeout_seconds=None)["push_timeout_seconds"] == 10
        made = self.changed(call, {"name": subscription}, retry="first-immediate")
        assert made["retry"] == made["labels"]["fanlog-retry"] == "first-immediate"

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"push_timeout_seconds": 0}, "push_timeout_seconds: '0' is not a whole number"),
            ({"push_timeout_seconds": 601}, "push_timeout_seconds: '601' is not a whole number"),
            ({"push_timeout_seconds": 1.5}, "push_timeout_seconds: cannot be"),
            ({"push_timeout_seconds": True}, "push_timeout_seconds: cannot be"),
            ({"push_body": "xml"}, "push_body: 'xml' is not one of"),
            ({"retry": "soon"}, "retry: 'soon' is not 'first-immediate'"),
            ({"retry": "first-immediate", "retry_policy": {}}, "retry: asks for another schedule"),
            (
                {"push_body": "event", "labels": {"fanlog-push-body": "plain"}},
                "push_body: the label fanlog-push-body says otherwise",
            ),
            ({"mode": "pull", "push_body": "event"}, "push_body: is for mode push"),
            ({"labels": 7, "retry": "first-immediate"}, "labels: must be a JSON object"),
        ],
    )
    def test_what_is_refused(self, call, topic, fields, sentence):
        push = {"mode": "push", "delivery_url": "http://127.0.0.1:9/"}
        if fields.get("mode") == "pull":
            push = {}
        body = {"name": unique("hook"), "topic": topic} | push | fields
        response = call("POST", "/v1/subscriptions", body)
        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith(sentence)

    def test_a_name_that_does_not_resolve_comes_with_a_hint(self, call, topic, monkeypatch):
        async def nowhere(_):
            raise OSError(-2, "Name or service not known")

        monkeypatch.setattr(host_resolver, "lookup", nowhere)
        name, push = unique("hook"), {"mode": "push", "delivery_url": "http://nowhere.test-d.org/"}
        path = f"/v1/projects/{PROJECT_DEFAULT}/subscriptions/{unique('hook')}"
        config = {"pushEndpoint": push["delivery_url"]}
        google = {"topic": f"projects/{PROJECT_DEFAULT}/topics/{topic}", "pushConfig": config}
        for http, where, body in (
            ("POST", "/v1/subscriptions", {"name": name, "topic": topic} | push),
            ("PATCH", f"/v1/subscriptions/{name}", push),
            ("PUT", path, google),
            ("POST", f"{path}:modifyPushConfig", {"pushConfig": config}),
        ):
            response = call(http, where, body)
            assert response.status_code < 300, response.text
            assert "'nowhere.test-d.org', does not resolve" in response.headers["fanlog-hint"]
