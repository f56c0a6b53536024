"""Requests byte for byte, and what really comes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True)
class RawReply:
    """What came back on a bare connection, and how the connection ended."""

    received: bytes
    was_reset: bool


async def exchange(port: int, request: bytes) -> RawReply:
    """Send bytes and read until the other side ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    was_reset = False
    try:
        writer.write(request)
        while chunk := await reader.read(65536):
            received += chunk
    except ConnectionResetError:
        was_reset = True
    finally:
        writer.transport.abort()
    return RawReply(received, was_reset)


def post(body: bytes, key: str = "k-1", *, claims_bytes: int | None = None) -> bytes:
    """A POST of a fact, byte for byte; it may claim a longer body than it has."""
    length = len(body) if claims_bytes is None else claims_bytes
    head = (
        f"POST /facts HTTP/1.1\r\nHost: outside\r\nIdempotency-Key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode() + body
