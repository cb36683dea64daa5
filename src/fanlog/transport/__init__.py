"""The port: gRPC on our own HTTP/2 connection, HTTP/1.1 beside it, plain or over TLS.

`messages.py`, `statuses.py` and `timeouts.py` are gRPC's words as bytes, without I/O;
`grpc_server.py` serves calls, `listener.py` tells one protocol from the other by the first bytes.
"""
