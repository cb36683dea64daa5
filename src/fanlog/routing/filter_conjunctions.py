"""A filter as conjunctions for the index: which of its tests are looked up, and which are run.

A filter is brought into disjunctive form as far as that stays small. Each conjunction then has a
few *steps*, tests that a table can answer for all filters at once, and a *rest*, which is run for
the messages that pass the steps. Steps come in an order that depends on their kinds and fields
alone, so that filters of one shape share tables: equality before prefixes before ranges.

Invariants:

1. A message passes a filter exactly if it passes one of its conjunctions: all steps and the rest.
2. The number of conjunctions is at most `CONJUNCTIONS_MAX`, and their size at most
   `PRODUCT_MAX` times that of the filter. A part of the filter that would grow past these is not
   multiplied out, but becomes a test of a rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Final

from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Field,
    Filter,
    Glob,
    Has,
    In,
    Not,
    Op,
    Or,
    Payload,
    Predicate,
    Prefix,
    Value,
)

#: Conjunctions of one filter; one with more is run as a whole. Room for an OR of all the tests that
#: a filter may have.
CONJUNCTIONS_MAX = 128
#: Conjunctions that multiplying out an AND may give.
PRODUCT_MAX = 16
#: Steps of one conjunction: after three look-ups few filters are left, and tests are cheap.
STEPS_MAX = 3

#: A value as a key of a table: numbers are doubles, and the booleans are not 0 and 1.
Key = str | float | tuple[bool]


@dataclass(frozen=True, slots=True)
class Equal:
    """The field has one of these values."""

    field: Field
    keys: tuple[Key, ...]
    tests: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Starts:
    """The field's string begins so."""

    field: Field
    prefix: str
    tests: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The field has a number, or a string, from `low` on and below `high`; None is no bound."""

    field: Field
    is_number: bool
    low: float | str | None
    high: float | str | None
    tests: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """The field is there."""

    field: Field
    tests: tuple[Filter, ...]


#: The `tests` of a step are the predicates that it decides; empty, where the rest repeats them.
Step = Equal | Starts | Between | Present


@dataclass(frozen=True, slots=True)
class Conjunction:
    steps: tuple[Step, ...]
    rest: tuple[Filter, ...]


def conjunctions(tree: Filter) -> list[Conjunction]:
    """Give conjunctions that together mean the filter; none, where nothing can pass it."""
    found = []
    for literals in _alternatives(tree, is_negated=False):
        conjunction = _conjunction(literals)
        if conjunction is not None:
            found.append(conjunction)
    if len(found) > CONJUNCTIONS_MAX or any(not each.steps for each in found):
        # A tree without steps is run for every message anyway: then run it once, as a whole.
        return [Conjunction((), () if Conjunction((), ()) in found else (tree,))]
    return found


def key_of(value: Value) -> Key:
    if isinstance(value, str):
        return value
    return (value,) if isinstance(value, bool) else float(value)


# Disjunctive form. A literal is a predicate, or anything that is only ever run.

_Literals = list[Filter]


def _alternatives(tree: Filter, *, is_negated: bool) -> list[_Literals]:
    match tree:
        case Not(child):
            return _alternatives(child, is_negated=not is_negated)
        case Compare(field, Op.NE, value):
            return _alternatives(Compare(field, Op.EQ, value), is_negated=not is_negated)
        case And(children) | Or(children):
            if isinstance(tree, And) is is_negated:
                return _sum(children, is_negated)
            return _product(children, is_negated)
        case _:
            return [[Not(tree) if is_negated else tree]]


def _sum(children: Sequence[Filter], is_negated: bool) -> list[_Literals]:
    """Any of them. Equalities of one field are one IN: a message passes it once, not twice."""
    found: list[_Literals] = []
    values: dict[Field, dict[Key, Value]] = {}
    for child in children:
        for literals in _alternatives(child, is_negated=is_negated):
            match literals:
                case [Compare(field, Op.EQ, value)]:
                    values.setdefault(field, {}).setdefault(key_of(value), value)
                case [In(field, several)]:
                    of_field = values.setdefault(field, {})
                    for value in several:
                        of_field.setdefault(key_of(value), value)
                case _:
                    found.append(literals)
    found += [[In(field, tuple(of_field.values()))] for field, of_field in values.items()]
    return found


def _product(children: Sequence[Filter], is_negated: bool) -> list[_Literals]:
    """All of them, multiplied out while that stays small."""
    factors = [(_alternatives(child, is_negated=is_negated), child) for child in children]
    found: list[_Literals] = [[]]
    for alternatives, child in sorted(factors, key=lambda factor: len(factor[0])):
        if len(found) * len(alternatives) > PRODUCT_MAX:
            alternatives = [[Not(child) if is_negated else child]]
        found = [literals + more for literals in found for more in alternatives]
    return found


# One conjunction.

_FALSE: Final = None
_NEVER_MISSING = (Envelope.TOPIC, Envelope.MESSAGE_ID, Envelope.PUBLISH_TIME)


def _conjunction(literals: _Literals) -> Conjunction | None:
    steps: list[Step] = []
    rest: _Literals = []
    ranges: dict[tuple[Field, bool], Between] = {}
    for literal in literals:
        if isinstance(literal, And | Or | Not):
            rest.append(literal)
        elif not _can_hold(literal):
            return _FALSE
        elif isinstance(literal, Compare) and literal.op is not Op.EQ:
            between = _between(literal)
            place = (between.field, between.is_number)
            ranges[place] = _both(ranges[place], between) if place in ranges else between
        else:
            step = _step(literal)
            if step is not None:
                steps.append(step)
            if not _is_said_by_step(literal):
                rest.append(literal)
    if any(_is_empty(each) for each in ranges.values()):
        return _FALSE
    chosen, left = _choose([*steps, *ranges.values()])
    return Conjunction(tuple(chosen), (*rest, *left))


def _can_hold(predicate: Predicate) -> bool:
    """Say whether the field can ever have such a value."""
    is_time = predicate.field is Envelope.PUBLISH_TIME
    match predicate:
        case Has():
            return True
        case Prefix() | Glob():
            return not is_time
        case In(_, values):
            return any(_can_hold(Compare(predicate.field, Op.EQ, value)) for value in values)
        case Compare(field, op, value):
            if isinstance(value, bool):
                return op is Op.EQ and isinstance(field, Payload)
            if isinstance(value, str):
                return not is_time
            return op is not Op.EQ or is_time or isinstance(field, Payload)


def _step(predicate: Predicate) -> Step | None:
    """Give the part of a predicate that a table can answer; None where that part always holds."""
    field = predicate.field
    tests = (predicate,) if _is_said_by_step(predicate) else ()
    match predicate:
        case Compare(_, _, value):
            return Equal(field, (key_of(value),), tests)
        case In(_, values):
            return Equal(field, tuple({key_of(value): None for value in values}), tests)
        case Prefix(_, start) | Glob(_, (start, *_)) if start:
            return Starts(field, start, tests)
        case _ if field in _NEVER_MISSING:
            return None
        case _:
            return Present(field, tests)


def _is_said_by_step(predicate: Predicate) -> bool:
    """Say whether the step is all of it, or only a part that a table can answer."""
    match predicate:
        case Glob():
            return False
        case Prefix(field, ""):
            # In the payload it also says that the value is a string.
            return not isinstance(field, Payload)
        case _:
            return True


def _between(order: Compare) -> Between:
    """Ranges are half-open: a bound that is not, moves to the next value that there can be."""
    assert not isinstance(order.value, bool)
    bound: float | str
    if isinstance(order.value, str):
        bound = order.value + "\0" if order.op in (Op.GT, Op.LE) else order.value
    else:
        bound = float(order.value)
        bound = nextafter(bound, inf) if order.op in (Op.GT, Op.LE) else bound
    is_low = order.op in (Op.GT, Op.GE)
    return Between(
        field=order.field,
        is_number=isinstance(bound, float),
        low=bound if is_low else None,
        high=None if is_low else bound,
        tests=(order,),
    )


def _both(one: Between, other: Between) -> Between:
    # Both are of numbers or both of strings, which the types do not say.
    lows = [each.low for each in (one, other) if each.low is not None]
    highs = [each.high for each in (one, other) if each.high is not None]
    return Between(
        field=one.field,
        is_number=one.is_number,
        low=max(lows, default=None),
        high=min(highs, default=None),
        tests=one.tests + other.tests,
    )


def _is_empty(between: Between) -> bool:
    low, high = between.low, between.high
    return low is not None and high is not None and low >= high  # type: ignore[operator]


def _choose(steps: list[Step]) -> tuple[list[Step], _Literals]:
    """The best few steps in their order, and the tests of all others."""
    chosen: list[Step] = []
    left: _Literals = []
    fields: set[Field] = set()
    has_several = False
    for step in sorted(steps, key=_rank):
        # Several keys multiply the nodes under them, so one step at most may have them. One step
        # for a field is enough; it also says that the field is there.
        is_several = isinstance(step, Equal) and len(step.keys) > 1
        if (
            len(chosen) < STEPS_MAX
            and step.field not in fields
            and not (has_several and is_several)
        ):
            chosen.append(step)
            fields.add(step.field)
            has_several = has_several or is_several
        else:
            left += step.tests
    return chosen, left


def _rank(step: Step) -> tuple[int, int, str]:
    """Kinds that few filters share with a message come first; then an order of fields, any."""
    kind = 0
    match step:
        case Equal(_, keys):
            kind = 0 if len(keys) == 1 else 1
        case Starts():
            kind = 2
        case Between(low=low, high=high):
            kind = 3 if low is not None and high is not None else 4
        case Present():
            kind = 5
    match step.field:
        case Attribute(key):
            return kind, 0, key
        case Payload(path):
            return kind, 1, repr(path)
        case field:
            return kind, 2, field.value


def fields_of(tree: Filter) -> Iterable[Field]:
    """Every field that a filter looks at, as often as it does."""
    match tree:
        case And(children) | Or(children):
            for child in children:
                yield from fields_of(child)
        case Not(child):
            yield from fields_of(child)
        case _:
            yield tree.field
