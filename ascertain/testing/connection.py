"""How a connection ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Literal, assert_never

How = Literal["reset", "close"]

_LINGER_0 = struct.pack("ii", 1, 0)


def end(transport: asyncio.BaseTransport | None, how: How) -> None:
    """End a connection: ``reset`` sends RST, ``close`` flushes what was written and sends FIN."""
    if not isinstance(transport, asyncio.Transport):
        return
    match how:
        case "reset":
            peer = transport.get_extra_info("socket")
            # A connection that is being closed already has its FIN to send.
            if peer is not None and not transport.is_closing():
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
            transport.abort()
        case "close":
            transport.close()
        case _:
            assert_never(how)
