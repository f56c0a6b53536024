"""Which hosts the adapters may call: the deployment's list, held against the name and the address.

The name is checked before anything is resolved and the address at the connect, after the resolver has
spoken, so that a name on the list cannot be pointed at what stands inside.

Source:
    RFC 6052, 3056 and 4291: forms of IPv6 addresses that lead to an IPv4 address.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Prefixes whose last 32 bits are an IPv4 address: mapped, compatible, translated.
_CARRIERS: Final = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "::/96", "64:ff9b::/96")))


class NotListed(PermissionError):
    """A host that is not on the list, or leads to an address that is neither public nor listed."""


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
        meant = _carried(found) or found
        public = found.is_global and meant.is_global
        return public or any(self._lists(str(one)) for one in {found, meant})

    def opened(self, address: tuple[Any, ...]) -> socket.socket:
        """The socket of a connection that is about to be opened: ``socket_factory`` of aiohttp.

        Raises:
            NotListed: The address may not be connected to; nothing has left.
        """
        family, kind, protocol, _, place = address
        if not self.admits_address(str(place[0])):
            raise NotListed(
                errno.EACCES, f"{place[0]} is not public and not on the deployment's list"
            )
        return socket.socket(family, kind, protocol)

    async def resolve(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """Where a host's connections may go, as ``getaddrinfo`` gives it.

        Raises:
            NotListed: The host is not on the list, or has an address that is not admitted.
            OSError: It cannot be resolved.
        """
        if not self.admits_host(host):
            raise NotListed(errno.EACCES, f"{host} is not on the deployment's list of hosts")
        loop = asyncio.get_running_loop()
        found: list[tuple[Any, ...]] = []
        found += await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        for place in found:
            self.opened(place).close()
        return found

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a host, by an address that was looked at; for libraries that take one.

        Raises:
            OSError: As ``resolve``, or none of its addresses takes the connection.
        """
        fault = OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
        for place in await self.resolve(host, port):
            opened = self.opened(place)
            opened.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(opened, place[4])
            except OSError as error:
                opened.close()
                fault = error
            except BaseException:
                opened.close()
                raise
            else:
                return opened
        raise fault

    def _lists(self, address: str) -> bool:
        found = ipaddress.ip_address(address)
        return any(found in network for network in self._networks)


def _carried(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to, if it is of such a form."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if any(address in network for network in _CARRIERS):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour


# Set by the composition before adapters are made; None: whatever the adapters' options name.
REACH: Final[ContextVar[Reach | None]] = ContextVar("reach", default=None)
