"""The memory of requests that were done."""

from __future__ import annotations

from fanlog.core.records import RememberedAnswer
from fanlog.core.requests import Requests

ANSWER = RememberedAnswer(reopened=1, copied=2, skipped=3)


def remember(requests: Requests, owner: int, request_id: str, expires_s: float, most: int = 3):
    records = requests.remember(owner, request_id, ANSWER, expires_s=expires_s, most=most)
    for record in records:
        requests.apply(record)
    return records


def test_it_is_known_until_its_time_is_over():
    requests = Requests()
    remember(requests, 1, "a", 10.0)
    assert requests.find(1, "a", 9.0) == ANSWER
    assert requests.find(1, "a", 10.0) is None
    assert requests.find(2, "a", 0.0) is None
    [forgotten] = requests.expire(10.0, limit=5)
    requests.apply(forgotten)
    assert len(requests) == 0


def test_one_without_an_id_is_not_remembered():
    requests = Requests()
    assert remember(requests, 1, "", 10.0) == []
    assert requests.find(1, "", 0.0) is None


def test_beyond_a_bound_the_oldest_is_forgotten():
    requests = Requests()
    for number in range(5):
        remember(requests, 1, str(number), 10.0 + number)
    assert [requests.find(1, str(n), 0.0) is not None for n in range(5)] == [
        *(False, False, True, True, True)
    ]


def test_after_recovery_the_oldest_is_first_again():
    requests = Requests()
    for request_id, expires_s in (("late", 30.0), ("early", 10.0), ("middle", 20.0)):
        remember(requests, 1, request_id, expires_s)
    requests.sort()
    remember(requests, 1, "new", 40.0)
    assert requests.find(1, "early", 0.0) is None
    assert requests.find(1, "late", 0.0) is not None


def test_a_subscription_takes_its_own_along():
    requests = Requests()
    remember(requests, 1, "a", 10.0)
    remember(requests, 2, "a", 10.0)
    for record in requests.forget(1):
        requests.apply(record)
    assert requests.find(1, "a", 0.0) is None
    assert requests.find(2, "a", 0.0) is not None
