"""Items that are looked at when their time has come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fanlog.transport.looks import Looks


def test_an_item_is_looked_at_once_at_its_earliest_time():
    looks: Looks[str] = Looks()
    looks.put("a", 5)
    looks.put("b", 3)
    looks.put("a", 2)
    looks.put("b", 9)
    assert looks.due(1) == []
    assert looks.due(4) == ["a", "b"]
    assert looks.due(10) == []


def test_an_item_that_was_looked_at_may_have_another_time():
    looks: Looks[str] = Looks()
    looks.put("a", 1)
    assert looks.due(1) == ["a"]
    looks.put("a", 3)
    assert looks.due(2) == []
    assert looks.due(3) == ["a"]


def test_an_item_that_was_removed_is_not_kept():
    looks: Looks[int] = Looks()
    for item in range(10_000):
        looks.put(item, 60 + item)
        looks.remove(item)
    assert len(looks._heap) <= 101
    assert looks.due(100_000) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20))), max_size=40
    )
)
def test_against_a_table_of_times(steps: list[tuple[str, int | None]]):
    looks: Looks[str] = Looks()
    times: dict[str, int] = {}
    for now, (item, time) in enumerate(steps):
        if time is None:
            looks.remove(item)
            times.pop(item, None)
        else:
            looks.put(item, time)
            times[item] = min(time, times.get(item, time))
        found = {one for one, due in times.items() if due <= now}
        assert set(looks.due(now)) == found
        for one in found:
            del times[one]
