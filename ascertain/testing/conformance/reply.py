"""HTTP replies that the kit's proxy gives in the outside's place."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE: Final = b"<html><body>gateway</body></html>"
# What a sensible reader does not take in whole.
OVERSIZE_BYTES: Final = 32 << 20


def reply(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole reply after which the connection ends."""
    known = {one.value: one.phrase for one in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Said')}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def error(status: int, headers: Mapping[str, str] | None = None) -> bytes:
    """What a gateway says: a status and a page for people."""
    return reply(status, _PAGE, {"Content-Type": "text/html", **(headers or {})})


def redirect(status: int, to: str) -> bytes:
    """The way to somewhere else."""
    return error(status, {"Location": to})


def success(body: bytes, kind: str = "application/json") -> bytes:
    """200 with anything."""
    return reply(200, body, {"Content-Type": kind})


def false_successes() -> Mapping[str, bytes]:
    """Replies with 200 that prove nothing."""
    return {
        "an empty body": success(b""),
        "an empty object": success(b"{}"),
        "a page for people": success(_PAGE, "text/html"),
        "an error in its body": success(b'{"error": {"code": "internal"}}'),
    }


def odd_successes() -> Mapping[str, bytes]:
    """Replies with 200 that cannot be read."""
    return {
        "a body that is no UTF-8": success(b'{"id": "\xff\xfe"}'),
        "a body that is no JSON": success(b'{"id": '),
        "a body of another encoding": reply(200, b"not gzip", {"Content-Encoding": "gzip"}),
        "a body of 32 MiB": success(b'{"id": "' + b"x" * OVERSIZE_BYTES + b'"}'),
    }
