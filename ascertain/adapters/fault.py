"""Short words for what broke a request. They name it for people and metrics; they decide nothing."""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx

from ascertain.adapters.sending import Phase
from ascertain.adapters.transport import Ended, SpokeUnasked

if TYPE_CHECKING:
    from collections.abc import Mapping

PERMIT_REFUSED: Final = "permit_refused"

# The first class that fits gives the word.
_WORDS: Final[Mapping[Phase, tuple[tuple[type[BaseException], str], ...]]] = {
    Phase.NEVER_LEFT: (
        (aiohttp.ClientConnectorDNSError, "name_not_resolved"),
        (ssl.SSLError, "tls_failed"),
        (aiohttp.ClientSSLError, "tls_failed"),
        (aiohttp.ServerFingerprintMismatch, "tls_failed"),
        (TimeoutError, "connect_timeout"),
        (aiohttp.ClientConnectorError, "connect_failed"),
        (SpokeUnasked, "peer_spoke_unasked"),
    ),
    Phase.LEFT: (
        (TimeoutError, "silence"),
        (aiohttp.ClientPayloadError, "answer_cut_off"),
        (aiohttp.ClientResponseError, "answer_malformed"),
        (aiohttp.ClientConnectionError, "connection_lost"),
        (ConnectionError, "connection_lost"),
    ),
}

_NO_MORE: Final[Mapping[Phase, str]] = {Phase.NEVER_LEFT: "not_sent", Phase.LEFT: "no_answer"}

_SENTENCES: Final[Mapping[Phase, str]] = {
    Phase.NEVER_LEFT: "never left us",
    Phase.LEFT: "left, no complete answer",
}


def word(fault: BaseException, phase: Phase) -> str:
    """The error class of a request that got no complete answer. Total over exceptions."""
    root = root_of(fault)
    if phase is Phase.NEVER_LEFT and getattr(root, "errno", None) == errno.ECONNREFUSED:
        return "connection_refused"
    return next((name for kind, name in _WORDS[phase] if isinstance(root, kind)), _NO_MORE[phase])


def sentence(fault: BaseException, phase: Phase, host: str, port: int | None) -> str:
    """One sentence for people. Holds no header, no body, no path and no query."""
    where = f"{host}:{port}" if port is not None else host
    return f"{_SENTENCES[phase]} ({word(fault, phase)}, {type(root_of(fault)).__name__}, {where})"


def root_of(fault: BaseException) -> BaseException:
    """The exception below the wrappers of this layer."""
    seen = fault
    while isinstance(seen, (httpx.TransportError, Ended)) and seen.__cause__ is not None:
        seen = seen.__cause__
    return seen
