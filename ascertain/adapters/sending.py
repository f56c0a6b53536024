"""One request on its way: the check before its first byte, and whether that byte has left."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Phase(StrEnum):
    """How far a request came. Read off the bytes, never off an exception."""

    NEVER_LEFT = "never_left"
    LEFT = "left"
    ANSWERED = "answered"


class NotPermitted(RuntimeError):
    """A first byte was about to leave for a request that is over or was sent before."""


class Sending:
    """The permit and the record of at most one wire request.

    Args:
        before_bytes: Called as the last line before the first byte; if it raises, nothing leaves.

    Attributes:
        refusal: What ``before_bytes`` raised.
    """

    __slots__ = ("_before_bytes", "_departed", "_handed_over", "_over", "_transport", "refusal")

    def __init__(self, before_bytes: Callable[[], None] | None = None) -> None:
        self._before_bytes = before_bytes
        self._departed = False
        self._handed_over = False
        self._over = False
        self._transport: asyncio.Transport | None = None
        self.refusal: Exception | None = None

    @property
    def departed(self) -> bool:
        """Whether the first byte asked for its permit, and got it."""
        return self._departed

    @property
    def left(self) -> bool:
        """Whether a byte may have left. Stays readable after a cancellation."""
        return self._departed or (self._handed_over and self.refusal is None)

    @property
    def phase(self) -> Phase:
        """LEFT or NEVER_LEFT; that there was an answer is known to who read it to its end."""
        return Phase.LEFT if self.left else Phase.NEVER_LEFT

    def depart(self, transport: asyncio.Transport) -> None:
        """Ask for the first byte to leave through ``transport``, and note that it did.

        Raises:
            NotPermitted: The request is over, or was sent before.
            Exception: Whatever ``before_bytes`` raised; kept as ``refusal``.
        """
        if self._over or self._departed:
            raise NotPermitted("at most one wire request for each attempt")
        if self._before_bytes is not None:
            try:
                self._before_bytes()
            except Exception as refusal:
                self.refusal = refusal
                raise
        self._departed = True
        self._transport = transport

    def hand_over(self) -> None:
        """The client took the whole request and may be writing it: from now on it counts as left.

        Only a refused permit speaks against it, so that a client which one day writes past the gate
        makes doubts, not duplicates.
        """
        self._handed_over = True

    def abandon(self) -> None:
        """Let no first byte leave any more, and drop what is still buffered on our side.

        Closing alone would go on flushing the rest of a large body to a peer that reads slowly, long
        after the caller was told that the request is in doubt.
        """
        self._over = True
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def conclude(self) -> None:
        """The answer is read: the connection belongs to the pool again and is not ours to abort."""
        self._over = True
        self._transport = None
