"""The short form of `fanlog.v1.Replay`: reopen, and what is done with dead letters."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from typing import Any

from fanlog import limits
from fanlog.model import names
from fanlog.server.rest import json_in, json_out
from fanlog.server.rest import short_answers as answers
from fanlog.server.rest import short_requests as requests
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.json_schema import (
    BASE64,
    BOOLEAN,
    LABELS,
    STRING,
    TIMESTAMP,
    Schema,
    array,
    integer,
    record,
)
from fanlog.server.rest.route import Asked, Route
from fanlog.v1 import replay_pb2

_SUBSCRIPTION = "/v1/subscriptions/{subscription=*}"
_COUNT = integer(0, 2**53)
_OFFSET = integer(0, limits.OFFSET_MAX)
_WINDOW: dict[str, Schema] = {"start_time": TIMESTAMP, "end_time": TIMESTAMP}
_CRITERIA: dict[str, Schema] = {"source_subscription": STRING, "reason": STRING, **_WINDOW}
_SET = {"partition": integer(1, 2**32 - 1), "start": _OFFSET, "end": _OFFSET, "bitmap": BASE64}
_REOPEN: dict[str, Schema] = {
    **_WINDOW,
    "offsets": array(record(_SET, "partition")),
    "message_ids": array(STRING),
    "request_id": STRING,
}
_SELECTION: dict[str, Schema] = {
    **_CRITERIA,
    "message_ids": array(STRING),
    "all": BOOLEAN,
    "max_messages": integer(0, limits.LETTERS_MAX),
    "page_token": STRING,
}
_REDRIVE = _SELECTION | {"request_id": STRING, "copies": BOOLEAN}
_SKIPPED: dict[str, Schema] = {
    "skipped": _COUNT,
    "skipped_letters": array(record({"message_id": STRING, "reason": STRING})),
    "next_page_token": STRING,
}
_LETTER = record(
    {
        "message": record(
            {
                "id": STRING,
                "data": BASE64,
                "attributes": LABELS,
                "ordering_key": STRING,
                "publish_time": STRING,
            }
        ),
        "source_subscription": STRING,
        "source_topic": STRING,
        "source_message_id": STRING,
        "delivery_attempts": _COUNT,
        "reason": STRING,
        "leased": BOOLEAN,
    }
)


def routes() -> list[Route]:
    """The routes of the service in the short form."""
    return [
        Route(
            http="POST",
            path=f"{_SUBSCRIPTION}:reopen",
            method="Replay.Reopen",
            read=partial(_read, replay_pb2.ReopenRequest, _REOPEN),
            write=_write_reopened,
            takes=record(_REOPEN),
            gives=record(
                {
                    "reopened": _COUNT,
                    "skipped": _COUNT,
                    "skipped_messages": array(record({"reason": STRING, "count": _COUNT})),
                }
            ),
        ),
        Route(
            http="POST",
            path=f"{_SUBSCRIPTION}:redrive",
            method="Replay.Redrive",
            read=partial(_read, replay_pb2.RedriveRequest, _REDRIVE),
            write=_write_redriven,
            takes=record(_REDRIVE),
            gives=record({"reopened": _COUNT, "copied": _COUNT, **_SKIPPED}),
        ),
        Route(
            http="POST",
            path=f"{_SUBSCRIPTION}:discard",
            method="Replay.Discard",
            read=partial(_read, replay_pb2.DiscardRequest, _SELECTION),
            write=_write_discarded,
            takes=record(_SELECTION),
            gives=record({"discarded": _COUNT, **_SKIPPED}),
        ),
        Route(
            http="GET",
            path=f"{_SUBSCRIPTION}/dead_letters",
            method="Replay.ListDeadLetters",
            read=_read_list,
            write=_write_list,
            gives=shapes.page_of("letters", _LETTER),
            parameters=_CRITERIA | shapes.PAGE,
        ),
    ]


def _read(request: Any, known: dict[str, Schema], asked: Asked) -> bytes:
    if isinstance(asked.body, dict) and isinstance(asked.body.get("source_subscription"), str):
        source = _full_name(asked.body["source_subscription"], asked)
        asked.body = asked.body | {"source_subscription": source}
    return requests.settle(request, known, (), asked)


def _read_list(asked: Asked) -> bytes:
    [own] = asked.variables.values()
    message = replay_pb2.ListDeadLettersRequest()
    json_in.fill_query(message, asked.query, frozenset({*_CRITERIA, *shapes.PAGE}))
    message.subscription = names.subscription_name(asked.project, own)
    if message.source_subscription:
        message.source_subscription = _full_name(message.source_subscription, asked)
    return bytes(message.SerializeToString())


def _full_name(name: str, asked: Asked) -> str:
    return name if "/" in name or not name else names.subscription_name(asked.project, name)


def _write_reopened(raw: bytes, _: Asked) -> Any:
    answer = replay_pb2.ReopenResponse.FromString(raw)
    why = [{"reason": one.reason, "count": one.count} for one in answer.skipped_messages]
    return {"reopened": answer.reopened, "skipped": answer.skipped, "skipped_messages": why}


def _write_redriven(raw: bytes, _: Asked) -> Any:
    answer = replay_pb2.RedriveResponse.FromString(raw)
    return {"reopened": answer.reopened, "copied": answer.copied, **_skipped(answer)}


def _write_discarded(raw: bytes, _: Asked) -> Any:
    answer = replay_pb2.DiscardResponse.FromString(raw)
    return {"discarded": answer.discarded, **_skipped(answer)}


def _skipped(answer: Any) -> dict[str, Any]:
    letters = [
        {"message_id": one.message_id, "reason": one.reason} for one in answer.skipped_letters
    ]
    found: dict[str, Any] = {"skipped": answer.skipped, "skipped_letters": letters}
    if answer.next_page_token:
        found["next_page_token"] = answer.next_page_token
    return found


def _write_list(raw: bytes, asked: Asked) -> Any:
    times = json_out.PublishTimes()

    def shown(letter: Any, project: str) -> dict[str, Any]:
        message = letter.message
        return {
            "message": {
                "id": message.message_id,
                "data": b64encode(message.data).decode("ascii"),
                "attributes": dict(message.attributes),
                "ordering_key": message.ordering_key,
                "publish_time": times.text(message.publish_time),
            },
            "source_subscription": answers.short_name(letter.source_subscription, project),
            "source_topic": answers.short_name(letter.source_topic, project),
            "source_message_id": letter.source_message_id,
            "delivery_attempts": letter.delivery_attempts,
            "reason": letter.reason,
            "leased": letter.leased,
        }

    return answers.page(replay_pb2.ListDeadLettersResponse, "letters", shown, raw, asked)
