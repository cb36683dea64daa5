"""Every bound of links and of the gateway, with its reason; those of calls are in `limits`."""

from __future__ import annotations

#: Calls on one link at a time: the streams of all callers of a node are among them.
LINK_STREAMS_MAX = 20_000
#: Of these, kept for calls with one answer, however many streams there are.
LINK_UNARY_MIN = 2_000
#: And for what nodes say to each other for themselves.
LINK_OWN_MIN = 16
#: Bytes of requests that a link has sent and has no answer to; further calls wait.
LINK_REQUEST_BYTES_MAX = 128 * 1024 * 1024
#: Calls that wait for room on a link or for an owner, and the bytes of their requests; each. Beyond
#: them, calls are refused at once.
WAITING_CALLS_MAX = 10_000
WAITING_BYTES_MAX = 64 * 1024 * 1024
#: How long a call waits for an owner, which official clients then ask again: longer than most
#: take-overs, and shorter than a client's own patience.
HOLD_S = 5.0
#: One answer, of any method: messages of PUBLISH_BYTES_MAX, and what stands around them.
LINK_ANSWER_BYTES_MAX = 64 * 1024 * 1024
#: Headers of a call on a link: those of the caller, and the certificate that it has shown.
LINK_HEADER_BYTES_MAX = 60 * 1024
LINK_CERTIFICATE_BYTES_MAX = 24 * 1024
#: Header blocks that are remembered on a link: some thousand callers, each with a few methods.
LINK_KNOWN_BYTES_MAX = 4 * 1024 * 1024
#: Connections of a link's port: nodes are few.
LINK_CONNECTIONS_MAX = 256
#: Of internal requests and answers.
LINK_INTERNAL_BYTES_MAX = 256 * 1024
#: An HTTP answer travels in pieces of so many bytes.
LINK_PIECE_BYTES = 256 * 1024
#: A secret that nodes share has at least so many characters.
NODE_SECRET_LENGTH_MIN = 32
