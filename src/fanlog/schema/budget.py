"""Budgets: the steps that a definition or a message may take, counted where the work is done.

A step is one visit of one type or value: a fraction of a microsecond, mostly. Definitions and
messages come from callers, and a few bytes can ask for work without end: every walk over them
spends from a budget. The budget of a message grows with its bytes, so that a large and honest
message passes.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.schema.compiled import Impossible


class StepBudget:
    """A number of steps, and the error that is raised when they are spent."""

    __slots__ = ("_error", "_left", "_most", "_work")

    def __init__(self, most: int, work: str, error: Callable[[str], Exception]) -> None:
        self._most = self._left = most
        self._work = work
        self._error = error

    def spend(self, steps: int = 1) -> None:
        """Count steps, before they are taken; raises when there are no more."""
        self._left -= steps
        if self._left < 0:
            raise self._error(f"{self._work} takes more than {self._most} steps")

    @property
    def spent(self) -> int:
        return self._most - self._left


def budget_to_compile(definition: str) -> StepBudget:
    """For one definition: linear in its length, as honest definitions are."""
    most = limits.SCHEMA_COMPILE_STEPS + limits.SCHEMA_COMPILE_STEPS_PER_BYTE * len(definition)
    return StepBudget(most, "compiling the definition", InvalidArgument)


def budget_to_compare() -> StepBudget:
    """For a revision against all that it is compared with."""
    return StepBudget(limits.SCHEMA_COMPARE_STEPS_MAX, "comparing the revisions", InvalidArgument)


def budget_to_transform() -> StepBudget:
    """For one message that is turned into another revision's."""
    return StepBudget(limits.SCHEMA_TRANSFORM_STEPS_MAX, "transforming the message", Impossible)
