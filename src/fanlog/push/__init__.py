"""Push: messages sent to the endpoints of subscriptions. `rules` do no I/O, `senders` do.

`service` has a sender for each push subscription; `senders.sender` says how a message travels.
"""
