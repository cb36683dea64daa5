"""Links: one connection from a node to another, over which it forwards calls and asks things.

`link.py` is this side's end, `server.py` the other's; both speak gRPC over the project's own
HTTP/2. A link's port serves nodes alone, and what the node itself owns: a call is forwarded once.
"""
