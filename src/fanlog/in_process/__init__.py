"""The whole broker inside a Python program: the same core, log and options as the server's.

A program uses `fanlog.Broker`; `broker.py` is that class, and the file to open first. The parts:

- `loop_thread`: the core lives on an event loop in a thread of its own, where no code of the
  program runs: whatever a callback does, it holds up nobody else.
- `new_message`, `payloads`: messages on their way in, checked by the code that checks requests.
- `options`: the arguments of `subscribe` as the spec of a subscription.
- `consumer`: takes messages from the feed of a subscription, and settles them.
- `workers`, `tasks`: call callbacks, in threads and as tasks; `key_gates` keeps those of a key
  apart.
"""
