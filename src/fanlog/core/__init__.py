"""The rules of delivery: pure machines over values. No I/O, no clock, no randomness, no logging.

Every machine has the same four kinds of method: *verbs* take values and `now` and return what is
to change; `apply(record)` is the only thing that changes hard state, on the live path and on
recovery alike; `next_deadline()` says when `expire(now)` should be called; `stats()` is a frozen
value for everybody else.
"""
