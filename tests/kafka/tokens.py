"""An issuer of tokens on this machine: where they are fetched, and the keys they are checked by."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"
_KEY_ID = "only"


class Issuer:
    """Serves `/token` and `/keys` until it is closed; a context manager."""

    def __init__(self, subject: str, life_s: float) -> None:
        #: Tokens given so far.
        self.given = 0
        self._subject = subject
        self._life_s = life_s
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(issuer._keys())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self._answer(issuer._token())

            def _answer(self, fields: Mapping[str, Any]) -> None:
                body = json.dumps(fields).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Issuer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": _KEY_ID,
            "alg": "RS256",
            "use": "sig",
            "n": _encoded(numbers.n.to_bytes(256, "big")),
            "e": _encoded(numbers.e.to_bytes(3, "big")),
        }
        return {"keys": [key]}

    def _token(self) -> dict[str, Any]:
        self.given += 1
        now_s = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims = {"sub": self._subject, "aud": AUDIENCE, "iat": now_s, "exp": now_s + self._life_s}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_encoded(signature)}"
        return {"access_token": token, "token_type": "bearer", "expires_in": self._life_s}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
