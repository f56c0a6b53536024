"""What a fault proxy can do to one exchange, and when it does it."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ascertain.testing.connection import How

Ending = How | Literal["silence"]


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing: request and reply go through."""

    kind: ClassVar = "pass"


@dataclass(frozen=True, slots=True)
class DropRequest:
    """The connection ends before a byte of the request was forwarded: nothing can have happened."""

    kind: ClassVar = "drop_request"
    how: How = "reset"


@dataclass(frozen=True, slots=True)
class BlackHole:
    """The request is swallowed and the connection stays open without a reply."""

    kind: ClassVar = "black_hole"


@dataclass(frozen=True, slots=True)
class DropReply:
    """The request is forwarded and answered; then the connection ends, or stays silent, without a reply."""

    kind: ClassVar = "drop_reply"
    how: Ending = "reset"


@dataclass(frozen=True, slots=True)
class CutReply:
    """The first ``keep_bytes`` of the reply, its head included, then the end."""

    kind: ClassVar = "cut_reply"
    keep_bytes: int
    how: How = "close"


@dataclass(frozen=True, slots=True)
class HalfClose:
    """The first ``keep_bytes`` of the reply, then FIN, while the client may go on sending."""

    kind: ClassVar = "half_close"
    keep_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Request or reply, or both, arrive later."""

    kind: ClassVar = "delay"
    request_s: float = 0
    reply_s: float = 0


@dataclass(frozen=True, slots=True)
class Substitute:
    """Another reply in the place of the outside's, and the end of the connection behind it.

    Attributes:
        reply: The bytes that go back, or what makes them of the outside's own.
        forwarded: Whether the outside got the request, and did what it does.
    """

    kind: ClassVar = "substitute"
    reply: bytes | Callable[[bytes], bytes]
    forwarded: bool = True

    def of(self, whole: bytes) -> bytes:
        """The bytes in the place of these; over HTTP a whole reply, elsewhere a piece of one."""
        return self.reply if isinstance(self.reply, bytes) else self.reply(whole)


ReplyFault = Pass | DropReply | CutReply | HalfClose | Delay | Substitute


@dataclass(frozen=True, slots=True)
class OnReply:
    """Asks what to do when the outside has answered in full and no byte of it went back.

    The fact exists at that moment and nobody knows: the place to kill or freeze a worker.

    Attributes:
        ask: Gets the request's bytes.
    """

    kind: ClassVar = "on_reply"
    ask: Callable[[bytes], Awaitable[ReplyFault]]


Fault = ReplyFault | DropRequest | BlackHole | OnReply
Match = str | bytes | re.Pattern[bytes] | Callable[[bytes], bool] | None


def predicate(match: Match) -> Callable[[bytes], bool]:
    """What tells whether a request fits: a regular expression searched in its bytes, or a function."""
    if match is None:
        return lambda _: True
    if isinstance(match, str):
        match = match.encode()
    if isinstance(match, bytes):
        match = re.compile(match, re.DOTALL)
    if isinstance(match, re.Pattern):
        pattern = match
        return lambda request: pattern.search(request) is not None
    return match


@dataclass(slots=True, eq=False)
class FaultRule:
    """A fault for the requests that fit.

    Attributes:
        times: Used up after so many; None: never.
        probability: Of each request that fits.
        fired: How often it was applied.
    """

    fault: Fault
    fits: Callable[[bytes], bool]
    times: int | None = None
    probability: float = 1.0
    fired: int = 0

    def takes(self, request: bytes, dice: random.Random) -> bool:
        """Whether it applies to this request; counts if so."""
        if self.times is not None and self.fired >= self.times:
            return False
        if not self.fits(request):
            return False
        if self.probability < 1 and dice.random() >= self.probability:
            return False
        self.fired += 1
        return True
