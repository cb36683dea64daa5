"""The names of fields as filters spell them.

`attributes.k` and `attributes."a.b"`, `payload.items[0].sku`, `topic` and its like; any other bare
name, as `event`, is an attribute.
"""

from __future__ import annotations

import re

from fanlog.routing.filter_ast import Attribute, Envelope, Field, Payload
from fanlog.routing.filter_scan import NAME, WORD, FilterError, Scanner, cut

ATTRIBUTES = "attributes"
PAYLOAD = "payload"
#: Words of the language, which no bare name may be.
RESERVED = ("AND", "OR", "NOT", "IN")

_ENVELOPE = {field.value: field for field in Envelope}
_INDEX = re.compile(r"[0-9]{1,9}(?=\])")
_PATH = re.compile(r"(\.[A-Za-z0-9_-]+)+")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def read_field(scanner: Scanner) -> Field:
    """Read a field that may be compared."""
    word = scanner.peek()
    if not _BARE.fullmatch(word) or word in RESERVED:
        raise _field_error(scanner)
    scanner.position += len(word)
    if word == ATTRIBUTES:
        return _attribute(scanner)
    scanner.is_google = False
    if word == PAYLOAD:
        return _payload(scanner)
    if rest := _rest(scanner):
        hint = f'write attributes."{cut(word + rest)}"'
        hint += f" or payload.{cut(word + rest)}" if _PATH.fullmatch(rest) else ""
        raise scanner.syntax_error("the end of a bare name", hint)
    return _ENVELOPE.get(word) or Attribute(word)


def read_member(scanner: Scanner, of: str) -> Field:
    """Read the key after `attributes:` or the path after `payload:`."""
    scanner.skip_space()
    if of == ATTRIBUTES:
        return Attribute(_key(scanner, ":"))
    scanner.is_google = False
    first = () if scanner.is_at("[") else (_name(scanner, 'a path after ":"'),)
    return Payload(_steps(scanner, first))


def _field_error(scanner: Scanner) -> FilterError:
    word, hint = scanner.peek(), ""
    if scanner.is_at('"'):
        hint = 'a quoted key follows "attributes."; values stand on the right'
    elif scanner.is_at("!"):
        hint = "negation is NOT"
    elif word and word not in RESERVED:
        hint = f"a name that begins so is written attributes.{cut(word)}"
    return scanner.syntax_error("a field (attributes.k, payload.a.b, k)", hint)


def _attribute(scanner: Scanner) -> Attribute:
    if not scanner.take("."):
        raise scanner.syntax_error('"." and a key after "attributes"')
    return Attribute(_key(scanner, "."))


def _key(scanner: Scanner, after: str) -> str:
    key = _name(scanner, f'a key after "attributes{after}"')
    if rest := _rest(scanner):
        raise scanner.syntax_error(
            "the end of the key", f'write attributes{after}"{cut(key + rest)}"'
        )
    return key


def _rest(scanner: Scanner) -> str:
    """Give the characters right behind a name that are not allowed in a name."""
    return "" if scanner.is_at(":") else scanner.peek(WORD)


def _payload(scanner: Scanner) -> Payload:
    if not scanner.is_at(".") and not scanner.is_at("["):
        raise scanner.syntax_error('"." and a path after "payload"')
    return Payload(_steps(scanner, ()))


def _steps(scanner: Scanner, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    steps = list(path)
    while True:
        if scanner.take("."):
            steps.append(_name(scanner, 'a name after "."'))
        elif scanner.take("["):
            steps.append(_index(scanner))
        else:
            return tuple(steps)


def _index(scanner: Scanner) -> int:
    digits = scanner.peek(_INDEX)
    if not digits:
        hint = 'a name is written ."name"' if scanner.is_at('"') else "indexes count from 0"
        raise scanner.syntax_error('an index of up to nine digits and "]"', hint)
    scanner.position += len(digits) + 1
    return int(digits)


def _name(scanner: Scanner, expected: str) -> str:
    if scanner.is_at('"'):
        # In a key a star is a star.
        return "*".join(scanner.read_quoted())
    word = scanner.peek(NAME)
    if not word:
        raise scanner.syntax_error(expected, _key_hint(scanner))
    scanner.position += len(word)
    return word


def _key_hint(scanner: Scanner) -> str:
    char = scanner.text[scanner.position : scanner.position + 1]
    if not char.isalnum() and not WORD.match(char):
        return ""
    return "keys of other characters than letters, digits, - and _ have double quotes"
