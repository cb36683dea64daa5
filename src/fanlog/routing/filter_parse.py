"""From the text of a filter to its tree. `parse` is the one way in, for text and JSON alike.

    filter     = operand { "AND" operand } | operand { "OR" operand }
    operand    = { "NOT" | "-" } ( "(" filter ")" | predicate )
    predicate  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | ":" ) value
               | field "IN" "(" value { "," value } ")"
               | "attributes" ":" key | "payload" ":" path
               | "hasPrefix" "(" field "," value ")" | "hasAttribute" "(" string ")"

AND and OR do not meet without parentheses between them, as in Google's language, which is the part
of this one with quoted values, `attributes` alone, `=`, `!=`, `attributes:key` and `hasPrefix`.
Filters within that part keep to Google's limit, and others to ours.
"""

from __future__ import annotations

from typing import Literal as Choice
from typing import assert_never

from fanlog import limits
from fanlog.routing import filter_terms as terms
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Envelope,
    Field,
    Filter,
    Has,
    Not,
    Op,
    Or,
    Payload,
    Predicate,
)
from fanlog.routing.filter_fields import (
    ATTRIBUTES,
    PAYLOAD,
    RESERVED,
    read_field,
    read_member,
)
from fanlog.routing.filter_json import parse_json
from fanlog.routing.filter_scan import WORD, WORD_RULE, FilterError, Scanner, cut

__all__ = ["FilterError", "parse"]

_FUNCTIONS = ("hasPrefix", "hasAttribute")
_FUNCTIONS_HINT = 'functions are hasPrefix(field, "p") and hasAttribute("k")'
#: Longest first: `<` begins `<=` too.
_OPERATORS = ("!=", "<=", ">=", "=", "<", ">")
#: Operators of other languages, and a hint at ours.
_FOREIGN_OPERATORS = {
    "==": "equality is one =",
    "<>": "unequal is !=",
    "=~": "there are no regular expressions; globs are written k = us-*",
    "!:": "write NOT in front",
}
_FOREIGN_JUNCTIONS = {"&": "write AND", "|": "write OR", ",": "write AND or OR", ";": "write AND"}

Junction = Choice["AND", "OR"]


def parse(text: str, *, limited: bool = True) -> Filter | None:
    """Read a filter; None when the text is empty, which wants everything.

    Text that begins with `{` is the JSON form.

    Args:
        limited: Whether the limits on bytes hold. Text by `filter_print` is spelled out, so it may
            be longer than the text it came from. Limits of nesting and predicates hold always.

    Raises:
        FilterError: Names the expected token and its column, counted in characters from 1, or its
            key in the JSON form.
    """
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if limited and size_bytes > limits.FILTER_BYTES_MAX:
        raise FilterError(f"{size_bytes} bytes; at most {limits.FILTER_BYTES_MAX} are allowed")
    scanner = Scanner(text)
    scanner.skip_space()
    if scanner.is_at_end:
        return None
    if scanner.is_at("{"):
        tree = parse_json(text)
        scanner.is_google = False
    else:
        tree = _Parser(scanner).whole()
    if limited and scanner.is_google and size_bytes > limits.FILTER_GOOGLE_BYTES_MAX:
        raise FilterError(
            f"{size_bytes} bytes; at most {limits.FILTER_GOOGLE_BYTES_MAX} are allowed "
            "where nothing is used that Google's filters do not have"
        )
    _check_tree(tree)
    return tree


def _check_tree(tree: Filter) -> None:
    levels, count = _levels(tree), _count(tree)
    if levels > limits.FILTER_NESTING_MAX:
        raise FilterError(
            f"{levels} levels of AND, OR and NOT; at most {limits.FILTER_NESTING_MAX} are allowed"
        )
    if count > limits.FILTER_PREDICATES_MAX:
        raise FilterError(
            f"{count} predicates; at most {limits.FILTER_PREDICATES_MAX} are allowed "
            "(IN with many values is one)"
        )


def _levels(tree: Filter) -> int:
    if isinstance(tree, And | Or):
        return 1 + max(map(_levels, tree.children))
    return 1 + _levels(tree.child) if isinstance(tree, Not) else 0


def _count(tree: Filter) -> int:
    if isinstance(tree, And | Or):
        return sum(map(_count, tree.children))
    return _count(tree.child) if isinstance(tree, Not) else 1


class _Parser:
    """One descent over one text. A method reads the part it is named for and stops behind it."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner

    def whole(self) -> Filter:
        tree = self._filter(0, None)
        assert self._scanner.is_at_end
        return tree

    def _filter(self, level: int, opened: int | None) -> Filter:
        """Read up to the end, or up to the parenthesis that closes the one `opened`."""
        children = [self._operand(level)]
        joined: Junction | None = None
        while (junction := self._junction(joined, opened)) is not None:
            joined = junction
            children.append(self._operand(level))
        return terms.any_of(children) if joined == "OR" else terms.all_of(children)

    def _junction(self, joined: Junction | None, opened: int | None) -> Junction | None:
        scanner = self._scanner
        scanner.skip_space()
        if scanner.is_at_end if opened is None else scanner.is_at(")"):
            return None
        junction: Junction
        match scanner.peek():
            case "AND":
                junction = "AND"
            case "OR":
                junction = "OR"
            case _:
                raise self._junction_error(opened)
        if joined not in (None, junction):
            raise scanner.refusal(
                f"{junction} beside {joined}", hint="parentheses must say which goes first"
            )
        scanner.position += len(junction)
        return junction

    def _operand(self, level: int) -> Filter:
        scanner = self._scanner
        negations = 0
        while self._negation():
            negations += 1
            self._check_level(level + negations)
        if scanner.is_at("("):
            opened = scanner.position
            level += negations + 1
            self._check_level(level)
            scanner.position += 1
            node = self._filter(level, opened)
            scanner.position += 1
        else:
            node = self._predicate()
        for _ in range(negations):
            node = Not(node)
        return node

    def _negation(self) -> bool:
        scanner = self._scanner
        scanner.skip_space()
        if scanner.peek() == "NOT":
            return scanner.take("NOT")
        return scanner.take("-")

    def _check_level(self, level: int) -> None:
        if level > limits.FILTER_NESTING_MAX:
            raise self._scanner.refusal(
                f"{level} levels of parentheses and NOT",
                hint=f"at most {limits.FILTER_NESTING_MAX} are allowed",
            )

    def _predicate(self) -> Filter:
        scanner = self._scanner
        begin, word = scanner.position, scanner.peek()
        scanner.position += len(word)
        scanner.skip_space()
        if word and scanner.is_at("(") and word not in RESERVED:
            return self._function(word, begin)
        if word in (ATTRIBUTES, PAYLOAD) and scanner.take(":"):
            return terms.has(read_member(scanner, word), scanner.where(begin))
        scanner.position = begin
        field = read_field(scanner)
        name = cut(scanner.text[begin : scanner.position])
        scanner.skip_space()
        return self._comparison(field, name)

    def _function(self, name: str, begin: int) -> Predicate:
        scanner = self._scanner
        if name not in _FUNCTIONS:
            scanner.position = begin
            upper = name.upper()
            hint = f"write {upper}" if upper in RESERVED else _FUNCTIONS_HINT
            raise scanner.syntax_error("a field or a function", hint)
        self._symbol("(", name)
        if name == "hasAttribute":
            scanner.is_google = False
            if not scanner.is_at('"'):
                raise scanner.syntax_error("a key in double quotes")
            node: Predicate = Has(Attribute("*".join(scanner.read_quoted())))
        else:
            field = read_field(scanner)
            self._symbol(",", "the field")
            node = terms.prefix(field, self._value('","'))
        self._symbol(")", "the arguments")
        return node

    def _symbol(self, symbol: str, after: str) -> None:
        """Step over a symbol that must be here, and the space around it."""
        self._scanner.skip_space()
        if not self._scanner.take(symbol):
            raise self._scanner.syntax_error(f'"{symbol}" after {after}')
        self._scanner.skip_space()

    def _comparison(self, field: Field, name: str) -> Filter:
        scanner = self._scanner
        if scanner.text[scanner.position : scanner.position + 2] in _FOREIGN_OPERATORS:
            raise self._operator_error(field, name)
        for symbol in _OPERATORS:
            if scanner.take(symbol):
                scanner.is_google &= symbol in ("=", "!=")
                literal = self._value(f'"{symbol}"')
                scanner.is_google &= not literal.has_stars
                return terms.compare(field, Op(symbol), literal)
        scanner.is_google = False
        if scanner.take(":"):
            return terms.prefix(field, self._value('":"'))
        if scanner.peek() == "IN":
            scanner.position += len("IN")
            return terms.one_of(field, self._values())
        raise self._operator_error(field, name)

    def _values(self) -> list[terms.Literal]:
        scanner = self._scanner
        self._symbol("(", "IN")
        found = [self._value('"("')]
        scanner.skip_space()
        while scanner.take(","):
            found.append(self._value('","'))
            scanner.skip_space()
        if not scanner.take(")"):
            raise scanner.syntax_error('"," or ")" after a value', self._value_hint())
        return found

    def _value(self, after: str) -> terms.Literal:
        scanner = self._scanner
        scanner.skip_space()
        begin = scanner.position
        where = scanner.where()
        if scanner.is_at('"'):
            return terms.Literal(terms.LiteralKind.QUOTED, scanner.read_quoted(), where)
        scanner.is_google = False
        word = scanner.peek(WORD)
        if not word or word in RESERVED:
            raise scanner.syntax_error(f"a value after {after}", self._value_hint())
        scanner.position = begin + len(word)
        return terms.read_unquoted(word, where)

    # Refusals, with hints for users of other filter languages.

    def _value_hint(self) -> str:
        scanner = self._scanner
        if scanner.is_at_end or scanner.text[scanner.position] in "(),=<>!":
            return ""
        if scanner.peek() in RESERVED:
            return "quote it to mean the word"
        return f"quote a value of other characters than {WORD_RULE}"

    def _junction_error(self, opened: int | None) -> FilterError:
        scanner = self._scanner
        char, word = scanner.text[scanner.position : scanner.position + 1], scanner.peek()
        end = "the end" if opened is None else '")"'
        before = scanner.text[: scanner.position].rstrip()
        if word.upper() in ("AND", "OR"):
            hint = f"write {word.upper()}"
        elif char in _FOREIGN_JUNCTIONS:
            hint = _FOREIGN_JUNCTIONS[char]
        elif not char and opened is not None:
            hint = f'the "(" is at column {opened + 1}'
        elif char == ")":
            hint = 'there is no "(" for it'
        elif char in "=!<>" and WORD.match(before[-1]):
            hint = 'a comparison has a dot: attributes.k = "v"'
        elif len(before) == scanner.position and WORD.match(before[-1]):
            hint = f"quote a value of other characters than {WORD_RULE}"
        else:
            hint = "predicates are joined by AND or OR"
            hint += ", and values with spaces quoted" if WORD.match(before[-1]) else ""
        return scanner.syntax_error(f"AND, OR or {end}", hint)

    def _operator_error(self, field: Field, name: str) -> FilterError:
        scanner = self._scanner
        hint = _FOREIGN_OPERATORS.get(scanner.text[scanner.position : scanner.position + 2], "")
        word = scanner.peek()
        if name in _FUNCTIONS:
            hint = _FUNCTIONS_HINT
        elif name.upper() in RESERVED and not scanner.is_at_end:
            hint = f"write {name.upper()}"
        elif word.upper() == "NOT":
            hint = f"write NOT {name} IN (…)"
        elif word.upper() == "IN":
            hint = "write IN"
        elif scanner.is_at_end or word in ("AND", "OR") or scanner.is_at(")"):
            hint = _existence_hint(field, name)
        return scanner.syntax_error(f'=, !=, <, <=, >, >=, : or IN after "{name}"', hint)


def _existence_hint(field: Field, name: str) -> str:
    match field:
        case Attribute():
            member = f"attributes:{name.removeprefix('attributes.')}"
        case Payload():
            member = f"payload:{name.removeprefix('payload').removeprefix('.')}"
        case Envelope():
            return ""
        case _:
            assert_never(field)
    return f"whether it is there is {member}"
