"""The words of a nack, said on every surface that settles messages."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from fanlog.client import CallFailed, Client
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.conftest import PATIENCE_S

Words = Sequence[tuple[str, str]]
Nack = Callable[[Any, str, str, Words], None]
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_TRUTHS = {"true": True, "false": False}


def by_unary(server: Any, name: str, ack_id: str, words: Words) -> None:
    request = {"subscription": name, "ack_ids": [ack_id], "ack_deadline_seconds": 0}
    try:
        server.subscriber.modify_ack_deadline(request=request, metadata=words, retry=None)
    except GoogleAPICallError as error:
        raise Refused(error.message) from error


def by_stream(server: Any, name: str, ack_id: str, words: Words) -> None:
    request = {"modify_deadline_ack_ids": [ack_id], "modify_deadline_seconds": [0]}
    stream = server.open_stream(name, metadata=words, **request)
    stream.half_close()
    try:
        stream.wait_closed()
    except GoogleAPICallError as error:
        raise Refused(error.message) from error


def _by_headers(server: Any, path: str, ack_id: str, words: Words) -> None:
    # By hand: libraries make one header of two that have one name.
    address = server.http("").removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    body = json.dumps({"ackIds": [ack_id], "ackDeadlineSeconds": 0}).encode()
    connection.putrequest("POST", path)
    for name, value in [("content-type", "application/json"), *words]:
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    if answer.status >= 400:
        raise Refused(content["error"]["message"])


def by_google_form(server: Any, name: str, ack_id: str, words: Words) -> None:
    _by_headers(server, f"/v1/{name}:modifyAckDeadline", ack_id, words)


def by_path_form(server: Any, name: str, ack_id: str, words: Words) -> None:
    _by_headers(server, f"/v1/{name}/modifyAckDeadline", ack_id, words)


def _meant(words: Words) -> dict[str, Any]:
    """What words mean, where they mean something."""
    found: dict[str, Any] = {}
    for word, text in words:
        field = word.removeprefix("fanlog-").replace("-", "_")
        if field in found or field not in ("requeue", "counted", "delay_seconds", "reason"):
            raise Unsaid(word)
        if field in ("requeue", "counted") and text not in _TRUTHS:
            raise Unsaid(text)
        if field == "delay_seconds" and not _NUMBER.fullmatch(text):
            raise Unsaid(text)
        if field == "delay_seconds":
            found[field] = float(text) if "." in text else int(text)
        else:
            found[field] = text if field == "reason" else _TRUTHS[text]
    return found


def by_short_form(server: Any, name: str, ack_id: str, words: Words) -> None:
    path = f"/v1/subscriptions/{name.rpartition('/')[2]}:nack"
    try:
        rest(server, "POST", path, {"ack_ids": [ack_id], **_meant(words)})
    except Refused as refused:
        # This form calls its fields by their own names.
        field, colon, said = str(refused).partition(":")
        raise Refused(f"fanlog-{field.replace('_', '-')}{colon}{said}") from refused


def by_command(server: Any, name: str, ack_id: str, words: Words) -> None:
    meant = _meant(words)
    options = [] if meant.get("requeue", True) else ["--terminal"]
    options += [] if meant.get("counted", True) else ["--uncounted"]
    options += ["--reason", meant["reason"]] if "reason" in meant else []
    if "delay_seconds" in meant:
        if meant["delay_seconds"] < 0:
            raise Unsaid("a duration is not negative")
        options += ["--delay", str(meant["delay_seconds"])]
    command(server, "sub", "nack", name, ack_id, *options)


def by_client(server: Any, name: str, ack_id: str, words: Words) -> None:
    meant = _meant(words)
    if "delay_seconds" in meant:
        meant["delay_s"] = meant.pop("delay_seconds")
    try:
        with Client(server.endpoint) as client:
            client.nack(name, [ack_id], **meant)
    except CallFailed as failure:
        raise Refused(failure.message) from failure


NACKING: tuple[Nack, ...] = (
    *(by_unary, by_stream, by_google_form, by_path_form, by_short_form, by_command, by_client),
)
