"""JSON is weighed before it is read, and what is heavy is no JSON to filters."""

from __future__ import annotations

import orjson
import pytest

from fanlog import limits
from fanlog.routing import candidate
from fanlog.routing.candidate import Candidate
from fanlog.routing.json_weight import is_heavy, weight


def test_commas_and_containers() -> None:
    assert weight(b'{"a": [1, 2, {}], "b": "x"}') == 3 + 3 * limits.JSON_CONTAINER_WEIGHT
    assert weight(b"") == weight(b"5") == 0


def test_what_is_short_is_never_heavy() -> None:
    most = limits.JSON_WEIGHT_MAX // limits.JSON_CONTAINER_WEIGHT
    assert not is_heavy(b"[" * most)
    assert is_heavy(b"[" * (most + 1))
    assert not is_heavy(b" " * 10_000_000)


def test_heavy_data_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate.orjson, "loads", pytest.fail)
    assert Candidate({}, b'{"a":5,"b":[0' + b",[]" * 3_000_000 + b"]}").payload is None


def test_large_data_that_is_not_heavy_is_read() -> None:
    data = orjson.dumps({"a": 5, "b": "x" * 5_000_000, "c": list(range(100_000))})
    assert Candidate({}, data).payload["a"] == 5
