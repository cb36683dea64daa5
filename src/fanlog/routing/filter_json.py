"""The JSON form of a filter: `{"payload.amount": {">=": 1000}, "payload.currency": "USD"}`.

Keys of one object are joined by AND; `any` has a list of objects joined by OR, `not` one object.
JSON is read here and not by the library: refusals name the expected token, no key may come twice,
numbers stay as they are written, and depth is bounded.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from fanlog import limits
from fanlog.routing import filter_terms as terms
from fanlog.routing.filter_ast import Field, Filter, Not, Op
from fanlog.routing.filter_fields import read_field
from fanlog.routing.filter_scan import FilterError, Parts, Scanner, cut

ANY = "any"
NOT = "not"
_OPS = {op.value: op for op in Op}
OPERATORS = (*_OPS, "in", "prefix", "exists")

#: Brackets over each other: two for each `any`, and four for the innermost `{"k": {"in": […]}}`.
_BRACKETS_MAX = 2 * limits.FILTER_NESTING_MAX + 4
_DECODER = json.JSONDecoder()

#: An object, a list, a string, or a number, true, false or null as a literal.
JsonForm: TypeAlias = "dict[str, JsonForm] | list[JsonForm] | str | terms.Literal"


def parse_json(text: str) -> Filter:
    """Read a filter in the JSON form.

    Raises:
        FilterError: Names the column where the text is not JSON, or the keys that lead to the part
            that is not a filter.
    """
    return _parse_all(_Reader(text).whole(), "")


def _parse_all(found: JsonForm, path: str) -> Filter:
    if not isinstance(found, dict):
        raise _syntax_error("an object with fields as keys", path, found)
    if not found:
        raise _syntax_error("at least one key", path, found)
    return terms.all_of([_parse_key(key, value, path) for key, value in found.items()])


def _parse_key(key: str, value: JsonForm, path: str) -> Filter:
    if key == ANY:
        return _parse_any(value, _within(path, ANY))
    if key == NOT:
        return Not(_parse_all(value, _within(path, NOT)))
    path = _within(path, _quote(key))
    field = _field(key, path)
    if not isinstance(value, dict):
        return terms.compare(field, Op.EQ, _literal(value, path))
    if not value:
        raise _syntax_error("at least one operator", path, value)
    tests = [_parse_test(field, name, operand, path) for name, operand in value.items()]
    return terms.all_of(tests)


def _parse_any(value: JsonForm, path: str) -> Filter:
    if not isinstance(value, list) or not value:
        raise _syntax_error("a list of at least one object", path, value)
    return terms.any_of(
        [_parse_all(child, f"{path}[{index}]") for index, child in enumerate(value)]
    )


def _parse_test(field: Field, name: str, value: JsonForm, path: str) -> Filter:
    if name not in OPERATORS:
        raise FilterError(
            f"unknown operator {_quote(name)} at {path}; there are {', '.join(OPERATORS)}"
        )
    path = _within(path, f'"{name}"')
    if name == "exists":
        return _parse_exists(field, value, path)
    if name == "in":
        if not isinstance(value, list) or not value:
            raise _syntax_error("a list of at least one value", path, value)
        return terms.one_of(
            field, [_literal(one, f"{path}[{index}]") for index, one in enumerate(value)]
        )
    if name == "prefix":
        if not isinstance(value, str):
            raise _syntax_error("a string", path, value)
        return terms.prefix(field, _literal(value, path))
    return terms.compare(field, _OPS[name], _literal(value, path))


def _parse_exists(field: Field, value: JsonForm, path: str) -> Filter:
    if not isinstance(value, terms.Literal) or value.kind is not terms.LiteralKind.BOOL:
        raise _syntax_error("true or false", path, value)
    found = terms.has(field, f"at {path}")
    return found if value.text == "true" else Not(found)


def _literal(value: JsonForm, path: str) -> terms.Literal:
    if isinstance(value, str):
        return terms.Literal(terms.LiteralKind.QUOTED, _parts(value), f"at {path}")
    if not isinstance(value, terms.Literal):
        hint = 'one of several is {"in": […]}' if isinstance(value, list) else ""
        raise _syntax_error("a string, a number, true or false", path, value, hint)
    if value.kind is terms.LiteralKind.NULL:
        raise _syntax_error("a value", path, value, 'what is not there is {"exists": false}')
    return terms.Literal(value.kind, value.parts, f"at {path}")


def _parts(text: str) -> Parts:
    r"""Cut at stars. `\*` is a star itself and `\\*` a backslash and a glob; else `\` is plain."""
    parts: list[str] = []
    piece: list[str] = []
    backslashes = 0
    for char in text:
        if char == "\\":
            backslashes += 1
            continue
        if char == "*":
            piece.append("\\" * (backslashes // 2))
            if backslashes % 2:
                piece.append(char)
            else:
                parts.append("".join(piece))
                piece = []
        else:
            piece.append("\\" * backslashes + char)
        backslashes = 0
    return (*parts, "".join(piece) + "\\" * backslashes)


def _field(key: str, path: str) -> Field:
    scanner = Scanner(key, of=f" of the key {path}")
    field = read_field(scanner)
    if not scanner.is_at_end:
        raise scanner.syntax_error("the end of the key")
    return field


def _within(path: str, step: str) -> str:
    return f"{path} {step}".lstrip()


def _quote(key: str) -> str:
    """Quote a key for a sentence, cut where it is too long to be read."""
    return json.dumps(cut(key), ensure_ascii=False)


def _syntax_error(what: str, path: str, found: JsonForm, hint: str = "") -> FilterError:
    match found:
        case dict():
            named = "an object" if found else "an empty object"
        case list():
            named = "a list" if found else "an empty list"
        case str():
            named = "a string"
        case _:
            named = "a number" if found.kind is terms.LiteralKind.NUMBER else found.text
    place = f" at {path}" if path else ""
    return FilterError(f"expected {what}{place}, found {named}{f'; {hint}' if hint else ''}")


class _Reader:
    """Reads JSON and knows its columns. Every method stops right behind the value that it read."""

    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)

    def whole(self) -> JsonForm:
        found = self._value(0)
        if not self._scanner.is_at_end:
            raise self._scanner.syntax_error("the end")
        return found

    def _value(self, brackets: int) -> JsonForm:
        scanner = self._scanner
        scanner.skip_space()
        if scanner.is_at("{") or scanner.is_at("["):
            if brackets == _BRACKETS_MAX:
                raise scanner.refusal(
                    f"{brackets + 1} brackets within each other",
                    hint=f"at most {_BRACKETS_MAX} are allowed",
                )
            inside = self._object if scanner.is_at("{") else self._list
            scanner.position += 1
            found: JsonForm = inside(brackets + 1)
        elif scanner.is_at('"'):
            found = self._string()
        else:
            found = self._literal()
        scanner.skip_space()
        return found

    def _object(self, brackets: int) -> JsonForm:
        scanner = self._scanner
        found: dict[str, JsonForm] = {}
        scanner.skip_space()
        if scanner.take("}"):
            return found
        while True:
            scanner.skip_space()
            begin = scanner.position
            if not scanner.is_at('"'):
                raise scanner.syntax_error("a key in double quotes")
            key = self._string()
            if key in found:
                raise scanner.refusal(
                    f"the key {_quote(key)} a second time", begin, hint="each may come once"
                )
            scanner.skip_space()
            if not scanner.take(":"):
                raise scanner.syntax_error('":" after a key')
            found[key] = self._value(brackets)
            if not self._goes_on("}"):
                return found

    def _list(self, brackets: int) -> JsonForm:
        scanner = self._scanner
        found: list[JsonForm] = []
        scanner.skip_space()
        if scanner.take("]"):
            return found
        while True:
            found.append(self._value(brackets))
            if not self._goes_on("]"):
                return found

    def _goes_on(self, closing: str) -> bool:
        if self._scanner.take(","):
            return True
        if not self._scanner.take(closing):
            raise self._scanner.syntax_error(f'"," or "{closing}"')
        return False

    def _string(self) -> str:
        scanner = self._scanner
        begin = scanner.position
        try:
            found, scanner.position = _DECODER.raw_decode(scanner.text, scanner.position)
        except json.JSONDecodeError as error:
            if error.pos == begin:
                raise scanner.refusal("a string without its closing quote") from None
            raise scanner.refusal("no JSON within a string", error.pos) from None
        assert isinstance(found, str)
        # JSON may escape half a surrogate pair, which no message can contain.
        if any("\ud800" <= char <= "\udfff" for char in found):
            raise scanner.refusal("half of a surrogate pair in the string", begin)
        return found

    def _literal(self) -> terms.Literal:
        scanner = self._scanner
        number = scanner.peek(terms.NUMBER)
        word = number or scanner.peek()
        if not number and word not in ("true", "false", "null"):
            raise scanner.syntax_error("a value", "strings have double quotes" if word else "")
        scanner.position += len(word)
        return terms.read_unquoted(word, "")
