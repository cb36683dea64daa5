"""Which addresses requests may go to: none that only this machine or its network can reach.

A user who may create a subscription could otherwise have the service send requests to its
neighbours. The rule is about addresses, not names: a name is resolved first, and the connection
goes to the address that was judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier's own; metadata at some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's host services
        "169.254.0.0/16",  # link-local; metadata at most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata at Oracle's cloud
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # measurements
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
#: The part of IPv6 that is assigned, and the networks in it that are not public.
_GLOBAL_6 = IPv6Network("2000::/3")
_REFUSED_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: any IPv4 address in disguise
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


class Guard:
    """Judges addresses; those in `allowed` networks are always permitted."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def permits(self, address: Address) -> bool:
        address = unwrap(address)
        # Networks of the other kind contain nothing of this one.
        if any(address in network for network in self._allowed):
            return True
        if isinstance(address, IPv4Address):
            return not any(address in network for network in _REFUSED_4)
        return address in _GLOBAL_6 and not any(address in network for network in _REFUSED_6)

    def permits_text(self, address: str) -> bool:
        """The same of an address as a resolver or a socket writes it; a zone is left out."""
        return self.permits(ip_address(address.partition("%")[0]))


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
