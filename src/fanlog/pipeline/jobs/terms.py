"""Terms of filters: predicates on one attribute, which tables can be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fanlog.routing.filter_ast import And, Attribute, Compare, Filter, Glob, Has, In, Op, Or, Prefix


@dataclass(frozen=True, slots=True)
class Term:
    """An attribute that is there (no value), that equals a value, or that begins with it."""

    key: str
    value: str | None = None
    is_prefix: bool = False

    @property
    def cost(self) -> int:
        """How little the term decides: more messages are left to be tried where it is high."""
        if self.value is None:
            return 1_000
        return 100 - min(len(self.value), 50) if self.is_prefix else 1


@dataclass(frozen=True, slots=True)
class Cover:
    """Terms of which one holds wherever the filter does."""

    terms: tuple[Term, ...]
    #: The filter holds wherever one of them does, too.
    is_exact: bool

    @property
    def cost(self) -> int:
        return sum(term.cost for term in self.terms)


def cover(tree: Filter) -> Cover | None:
    """The cheapest cover of a filter; None when it has none."""
    match tree:
        case Compare(Attribute(key), Op.EQ, str(value)):
            return Cover((Term(key, value),), is_exact=True)
        case In(Attribute(key), values) if all(isinstance(value, str) for value in values):
            return Cover(tuple(Term(key, str(value)) for value in values), is_exact=True)
        case Prefix(Attribute(key), prefix):
            return Cover((Term(key, prefix, is_prefix=True),), is_exact=True)
        case Glob(Attribute(key), (first, *_)) if first:
            return Cover((Term(key, first, is_prefix=True),), is_exact=False)
        case Has(Attribute(key)):
            return Cover((Term(key),), is_exact=True)
        case Compare(Attribute(key), op, _) if op is not Op.NE:
            return Cover((Term(key),), is_exact=False)
        case Glob(Attribute(key), _):
            return Cover((Term(key),), is_exact=False)
        case And(children):
            found = [one for one in map(cover, children) if one is not None]
            best = min(found, key=lambda one: one.cost, default=None)
            return None if best is None else Cover(best.terms, is_exact=False)
        case Or(children):
            parts = [cover(child) for child in children]
            if any(part is None for part in parts):
                return None
            whole = [part for part in parts if part is not None]
            terms = tuple(dict.fromkeys(term for part in whole for term in part.terms))
            return Cover(terms, is_exact=all(part.is_exact for part in whole))
    return None


def conjuncts(tree: Filter) -> Sequence[tuple[Term, ...]] | None:
    """A conjunction on attributes: one term of each entry must hold; None if it asks for more."""
    if not isinstance(tree, And):
        return None
    covers = [cover(child) for child in tree.children]
    if not all(one is not None and one.is_exact for one in covers):
        return None
    return [one.terms for one in covers if one is not None]
