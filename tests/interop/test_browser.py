"""A browser opens a page of a server: Chromium, which offers HTTP/2 and HTTP/1.1 over TLS."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from acceptance.served import PATIENCE_S, Served
from interop.cases import tries
from interop.conftest import Certificates
from interop.rest_calls import url

#: Nothing leaves this machine, and nothing is kept.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage"),
)


def fingerprint(certificate: Path) -> str:
    """A certificate's public key as Chromium is told to trust it."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(spki).digest()).decode()


@tries("opens a page", "Chromium")
def test_chromium_opens_a_page(tool, server: Served, certificates: Certificates, tmp_path: Path):
    trust = f"--ignore-certificate-errors-spki-list={fingerprint(certificates.certificate)}"
    result = subprocess.run(
        [
            *(tool, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", trust),
            *("--dump-dom", url(server, "/openapi.json")),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == 0, result.stderr
    page = re.search(r"<pre[^>]*>(.*)</pre>", result.stdout, re.DOTALL)
    assert page is not None, (result.stdout[:500], result.stderr[-500:])
    assert json.loads(html.unescape(page[1]))["openapi"].startswith("3.")
