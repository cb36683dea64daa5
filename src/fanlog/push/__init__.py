"""Push: messages sent to the endpoints of subscriptions. `rules` do no I/O, `senders` do."""
