"""The process that answers questions about schemas, and is ended when it takes too much."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fanlog import limits
from fanlog.broker.schemas import schema_worker
from fanlog.broker.schemas.definitions import Definitions
from fanlog.broker.schemas.examiner import Apart, AtOnce, Examiner
from fanlog.errors import InvalidArgument, Unavailable
from fanlog.schema import Compiled, Mismatch
from fanlog.schema.examination import Question

GOOD = '{"items": {"type": "string"}}'
#: Takes 60 us for each character that it looks at.
SLOW = json.dumps({"pattern": "([ab]{1,50}){1,50}c"})
LONG = json.dumps("ab" * 500_000).encode()


def asked(about: Any, definition: str = GOOD, **more: Any) -> Question:
    return Question(about=about, type="JSON", definition=definition, **more)


def run(work: Callable[[Apart], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        examiner = Apart(**options)
        try:
            return await work(examiner)
        finally:
            examiner.close()

    return asyncio.run(whole())


@pytest.mark.parametrize("kind", [AtOnce, Apart])
def test_questions_are_answered_alike(kind):
    async def ask() -> None:
        examiner: Examiner = kind()
        try:
            assert not (await examiner.ask(asked("definition"))).sentences
            with pytest.raises(InvalidArgument, match=r"the JSON Schema is wrong at \$.type"):
                await examiner.ask(asked("definition", '{"type": 7}'))
            found = await examiner.ask(
                asked("breaks", level="BACKWARD", earlier=[("5b1c22a9", "{}")])
            )
            assert "reading what 5b1c22a9 wrote: $" in str(found.sentences[0])
            found = await examiner.ask(asked("messages", messages=[b'["a"]', b"[1]", b"\xff"]))
            assert found.sentences[:2] == [None, '$[0]: 1 is not of type "string"']
            assert str(found.sentences[2]).startswith("$: expected JSON")
            new = '{"properties": {"a": {"default": "\\u00fc"}}, "required": ["b"]}'
            found = await examiner.ask(
                asked("transformed", new, earlier=[("", "{}")], messages=[b'{"b":1}', b"{}"])
            )
            assert list(found.made) == ['{"a":"ü","b":1}'.encode(), b""]
            assert found.sentences[0] is None
            assert found.sentences[1] == '$: "b" is a required property'
        finally:
            examiner.close()

    asyncio.run(ask())


def test_one_process_answers_all_and_ends_with_the_server():
    async def ask(examiner: Apart) -> int:
        assert examiner.process_id is None
        await examiner.ask(asked("definition"))
        first = examiner.process_id
        assert first is not None
        await asyncio.gather(*(examiner.ask(asked("definition")) for _ in range(5)))
        assert examiner.process_id == first
        return first

    process_id = run(ask)
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


def test_a_question_that_takes_too_long_ends_the_process_and_not_the_next_question():
    async def ask(examiner: Apart) -> None:
        with pytest.raises(InvalidArgument) as caught:
            await examiner.ask(asked("messages", SLOW, messages=[LONG]))
        assert str(caught.value).startswith(
            "checking the message takes more than 0.5 s of processor"
        )
        assert (await examiner.ask(asked("messages", messages=[b"[]"]))).sentences == [None]

    run(ask, seconds=0.5)


def test_a_question_that_takes_too_much_memory_ends_the_process():
    text = b"[" + b'{"a":{"b":[]}},' * 200_000 + b"{}]"

    async def ask(examiner: Apart) -> None:
        with pytest.raises(InvalidArgument, match="or 100000000 bytes of memory"):
            await examiner.ask(asked("messages", "{}", messages=[text]))

    run(ask, size_max=100_000_000, seconds=60.0)


def test_a_process_that_somebody_else_ended_is_not_the_question_s_fault():
    async def ask(examiner: Apart) -> None:
        await examiner.ask(asked("definition"))
        assert examiner.process_id is not None
        process = examiner._process
        assert process is not None
        process.terminate()
        # It may be asked before it is known to be gone, or after.
        try:
            await examiner.ask(asked("definition"))
        except Unavailable as error:
            assert "try again" in error.message  # noqa: PT017
        assert not (await examiner.ask(asked("definition"))).sentences

    run(ask)


def test_a_process_that_has_grown_is_replaced_after_its_answer(monkeypatch):
    read = schema_worker.read_reply

    def grown(pipe: Any) -> Any:
        reply = read(pipe)
        assert reply is not None
        assert not reply.is_last
        return reply._replace(is_last=True)

    monkeypatch.setattr(schema_worker, "read_reply", grown)

    async def ask(examiner: Apart) -> None:
        for _ in range(2):
            assert (await examiner.ask(asked("messages", messages=[b"[]"]))).sentences == [None]
            assert examiner.process_id is None

    run(ask)


def test_an_idle_process_is_ended(monkeypatch):
    monkeypatch.setattr(limits, "SCHEMA_PROCESS_IDLE_S", 0.0)

    async def ask(examiner: Apart) -> None:
        await examiner.ask(asked("definition"))
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert examiner.process_id is None
        await examiner.ask(asked("definition"))

    run(ask)


def test_nothing_is_asked_after_the_end():
    async def ask(examiner: Apart) -> None:
        examiner.close()
        with pytest.raises(Unavailable):
            await examiner.ask(asked("definition"))

    run(ask)


# Definitions.


@pytest.fixture
def definitions() -> Definitions:
    return Definitions(AtOnce())


def record(name: str, fields: int) -> str:
    made = [{"name": f"f{n}", "type": ["null", "string"]} for n in range(fields)]
    return json.dumps({"type": "record", "name": name, "fields": made})


def test_definitions_are_kept_up_to_a_number_of_bytes(definitions, monkeypatch):
    monkeypatch.setattr(definitions._kept, "_size_max", 3_000_000)

    async def compile_all() -> list[Compiled]:
        return [await definitions.compile_once("AVRO", record(f"R{n}", 300)) for n in range(60)]

    made = asyncio.run(compile_all())
    assert sum(one.size_bytes for one in made) > 10 * 3_000_000
    assert 2_000_000 < definitions.size_bytes <= 3_000_000
    again = asyncio.run(definitions.compile_once("AVRO", record("R59", 300)))
    assert again is made[-1]


@pytest.mark.parametrize("about", ["definition", "messages"])
def test_what_is_only_asked_about_is_not_kept(definitions, about):
    question = Question(
        about=about,
        type="AVRO",
        definition=record("R", 3),
        messages=[b"{}"] * (about == "messages"),
    )
    asyncio.run(definitions.ask(question))
    assert definitions.size_bytes == 0


def test_only_what_may_take_long_is_sent_away(definitions):
    class Counting(AtOnce):
        count = 0

        async def ask(self, question: Question) -> Any:
            self.count += 1
            raise InvalidArgument("checking the message takes more than it may")

    definitions.examiner = examiner = Counting()

    async def check(data: bytes) -> None:
        schema = await definitions.compile_once("JSON", SLOW)
        await definitions.check(schema, SLOW, data, "JSON")

    asyncio.run(check(b'"abc"' + b" " * 100_000))
    assert examiner.count == 0
    with pytest.raises(Mismatch, match="checking the message takes more than it may"):
        asyncio.run(check(LONG))
    assert examiner.count == 1
