"""Which hosts the HTTP adapters may call: the deployment's list, held against the name and the address.

The name is checked before anything is resolved and the address at the connect, after the resolver has
spoken, so that a name on the list cannot be pointed at what stands inside.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Reach:
    """A list of hosts.

    A name admits what it resolves to as long as that is a public address. Addresses that are not public
    (loopback, private ranges, link-local) are admitted only where they, or a network of theirs, are listed.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        """Take entries such as ``api.stripe.com``, ``*.example.com``, ``10.1.2.0/24`` and ``127.0.0.1``."""
        self._networks: list[Network] = []
        self._names: list[str] = []
        for host in hosts:
            try:
                self._networks.append(ipaddress.ip_network(host, strict=False))
            except ValueError:
                self._names.append(host.lower().rstrip("."))

    def admits_host(self, host: str) -> bool:
        """Whether this host of an address may be called, as far as its name says."""
        bare = host.strip("[]").lower().rstrip(".")
        try:
            ipaddress.ip_address(bare)
        except ValueError:
            return any(fnmatchcase(bare, name) for name in self._names)
        return self._lists(bare)

    def admits_address(self, address: str) -> bool:
        """Whether a connection to this address may be opened."""
        found = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(found, "ipv4_mapped", None)
        return (mapped or found).is_global or self._lists(str(mapped or found))

    def socket(self, address: tuple[Any, ...]) -> socket.socket:
        """The socket of a connection that is about to be opened: ``socket_factory`` of aiohttp.

        Raises:
            OSError: The address may not be connected to; nothing has left.
        """
        family, kind, protocol, _, place = address
        if not self.admits_address(str(place[0])):
            raise OSError(
                errno.EACCES, f"{place[0]} is not public and not on the deployment's list"
            )
        return socket.socket(family, kind, protocol)

    def _lists(self, address: str) -> bool:
        found = ipaddress.ip_address(address)
        return any(found in network for network in self._networks)


# Set by the composition before adapters are made; None: whatever the adapters' options name.
REACH: Final[ContextVar[Reach | None]] = ContextVar("reach", default=None)
