"""Planted bugs of limits in bytes, by age and of groups, and of pressure that travels."""

from __future__ import annotations

from typing import Any

from fanlog.broker.pressure.bounds import Bound, BoundTable
from fanlog.broker.pressure.forwards import Forwards
from fanlog.broker.pressure.relief import Relief
from fanlog.model.backlog_policy import BacklogPolicy
from simulator.planting import mutant


@mutant("bytes are nothing to a full backlog", 20, (BacklogPolicy, "excess"), needs="limiters")
def _(excess: Any) -> Any:
    def by_count(self: BacklogPolicy, messages: int, size_bytes: float) -> int:
        return int(excess(self, messages, 0.0))

    return by_count


@mutant(
    "a backlog full of bytes loses all of them", 20, (BacklogPolicy, "excess"), needs="limiters"
)
def _(excess: Any) -> Any:
    def twice(self: BacklogPolicy, messages: int, size_bytes: float) -> int:
        found = int(excess(self, messages, size_bytes))
        return messages if found and self.size_bytes else found

    return twice


@mutant("age is nothing to a backlog", 30, (Relief, "_let_go_of_old"), needs="limiters")
def _(_: Any) -> Any:
    async def keep(self: Relief, bound: Bound) -> None: ...

    return keep


@mutant("the young leave with the old", 20, (Relief, "_old_before"), needs="limiters")
def _(old_before: Any) -> Any:
    async def all_of_them(self: Relief, bound: Bound) -> Any:
        return {one: self._ledger.end(one) for one in await old_before(self, bound)}

    return all_of_them


@mutant("members of a group count for themselves", 20, (BoundTable, "members_of"), needs="limiters")
def _(_: Any) -> Any:
    return lambda self, bound: (bound,)


@mutant("a group is full for each of its members", 20, (BoundTable, "measure"), needs="limiters")
def _(measure: Any) -> Any:
    def twice(self: BoundTable, bound: Bound, transaction: Any = None) -> tuple[int, float]:
        messages, size_bytes = measure(self, bound, transaction)
        return (2 * messages, size_bytes) if bound.group else (messages, size_bytes)

    return twice


@mutant("pressure stays at its topic", 20, (Forwards, "on"), needs="limiters")
def _(_: Any) -> Any:
    return lambda self, partition: ()
