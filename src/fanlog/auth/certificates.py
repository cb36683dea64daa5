"""Mutual TLS: the principal of a client's certificate, by the server's rule."""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fanlog.auth.disbelief import NotBelieved
from fanlog.core.iam import is_member
from fanlog.model.identity import DOMAIN, Principal
from fanlog.transport.calls import Certificate

#: Which name of a certificate is believed; `none` believes no certificate.
NAMES: Final = ("none", "san-email", "san-dns", "san-uri", "cn")
_KINDS: Final = {"san-email": "email", "san-dns": "DNS", "san-uri": "URI"}


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """How a certificate says who its owner is."""

    #: One of NAMES.
    name: str = "none"
    #: Behind names that are no address: NAME@DOMAIN.
    domain: str = "mtls.internal"

    def principal(self, certificate: Certificate, now_s: float) -> Principal:
        """The owner of a certificate, as long as that is good.

        Raises:
            NotBelieved: The certificate has no such name, or more than one; or it has expired since
                the connection was made.
        """
        if self.name == "none":
            raise NotBelieved("certificates are not believed here (mtls_name)")
        found = list(self._names(certificate))
        if len(found) != 1:
            raise NotBelieved(f"the certificate has {len(found)} names of the kind {self.name}")
        name = found[0]
        if name.endswith(f".{DOMAIN}"):
            # Whoever may choose the name of a certificate could be the administrator.
            raise NotBelieved("the certificate names an account of this server")
        if self.name == "san-uri":
            member = f"principal://{name.partition('://')[2]}"
        elif self.name == "san-email":
            member = f"user:{name}"
        else:
            member = f"serviceAccount:{name if '@' in name else f'{name}@{self.domain}'}"
        if not is_member(member):
            raise NotBelieved("the certificate's name is none of a principal")
        expires_s = _end_of(certificate)
        if expires_s <= now_s:
            raise NotBelieved("the certificate has expired")
        return Principal(member=member, credential="certificate", expires_s=expires_s)

    def _names(self, certificate: Certificate) -> Iterator[str]:
        if self.name == "cn":
            subject = certificate.get("subject", ())
            assert isinstance(subject, tuple)
            for part in subject:
                yield from (value for key, value in part if key == "commonName")
            return
        others = certificate.get("subjectAltName", ())
        assert isinstance(others, tuple)
        yield from (value for kind, value in others if kind == _KINDS[self.name])


def _end_of(certificate: Certificate) -> float:
    """When a certificate ends; the handshake looked at that once, and a connection may last."""
    value = certificate.get("notAfter")
    return ssl.cert_time_to_seconds(value) if isinstance(value, str) else math.inf


#: Believes no certificate.
NO_CERTIFICATES: Final = CertificateRule()
