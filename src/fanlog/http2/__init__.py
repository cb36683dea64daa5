"""HTTP/2 (RFC 9113) as a machine: bytes in, events out; actions in, bytes out. No I/O, no clock.

`connection.py` is the machine, `states.py` its table, `header_blocks.py` HPACK. Both roles are
there: the server's answers callers, the client's is how nodes will talk to each other.
"""
