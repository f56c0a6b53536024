"""What an adapter's author gives the conformance kit.

::

    @asynccontextmanager
    async def letters():
        async with Outside() as outside:

            async def facts(effect_id):
                return len(outside.books.facts_of(effect_id))

            yield Trial(
                kind=lambda url: {"adapter": "letters:create", "options": {"base_url": url}},
                input=lambda number: {"text": f"letter {number}"},
                outside=outside.url,
                facts=facts,
            )
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from inspect import signature
from typing import Literal, TypeAlias, cast

from ascertain.contracts.value import JsonObject
from ascertain.errors import InvalidSettings
from ascertain.testing.fault import Match


def _no_secrets(url: str) -> Mapping[str, str]:
    del url
    return {}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One adapter, and what is needed to try it.

    Attributes:
        kind: Its table in the deployment file, given the address at which it is to reach its outside.
        input: The input of effect number n. Each differs in all that a lookup compares.
        outside: The outside's address: ``http://host:port/path``, or ``tcp://host:port`` for anything that is
            not HTTP. The kit puts its proxy before it. None: what the adapter does is not done by a socket.
        facts: The outside's own books: how many facts carry this effect_id. None: they cannot be read.
        secrets: What ``secret:NAME`` stands for, given the same address.
        makes: Which bytes on the wire make the fact, as a regular expression. None: every HTTP request but
            GET and HEAD; nothing is known of other protocols.
        proof: ``status`` where the outside proves a fact by its status alone, ``answer`` where in its answer.
        refuses: Statuses that this outside gives only before any work.
        compares: Whether the lookup sees the facts themselves, so that it can count and compare them.
        patience: How long a fact, or the end of a key's life, is waited for.
        name: The kind's name.
    """

    kind: Callable[[str], Mapping[str, object]]
    input: Callable[[int], JsonObject]
    outside: str | None = None
    facts: Callable[[str], Awaitable[int]] | None = None
    secrets: Callable[[str], Mapping[str, str]] = _no_secrets
    makes: Match = None
    proof: Literal["answer", "status"] = "answer"
    refuses: frozenset[int] = frozenset()
    compares: bool = True
    patience: timedelta = timedelta(seconds=2)
    name: str = "conform.effect"

    def __post_init__(self) -> None:
        """Refuse what would only be met in the middle of a trial."""
        if not hasattr(self.patience, "total_seconds"):
            raise InvalidSettings(
                f"patience={self.patience!r} must be a timedelta, such as timedelta(seconds=5)"
            )


OpenTrial: TypeAlias = AbstractAsyncContextManager[Trial]


def find(place: str) -> OpenTrial:
    """The trial that ``MODULE:TRIAL`` names: a Trial, or a function without arguments that opens one.

    Raises:
        InvalidSettings: There is none; says what is there.
    """
    module, _, name = place.partition(":")
    if not name:
        raise InvalidSettings(f"{place} names no trial: it must be MODULE:TRIAL")
    try:
        given: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSettings(
            f"cannot load {place}, which must be MODULE:TRIAL: {error}"
        ) from error
    return opened(given, place)


def opened(given: object, place: str = "what was given") -> OpenTrial:
    """A trial, however it is given, ready for ``async with``.

    Raises:
        InvalidSettings: It is none.
    """
    if callable(given) and not isinstance(given, Trial):
        if not _takes_nothing(given):
            raise InvalidSettings(
                f"{place} takes arguments, as an adapter's factory does; name a Trial of that adapter "
                "(see docs/how-to/adapter.md)"
            )
        given = cast("Callable[[], object]", given)()
    if isinstance(given, Trial):
        return nullcontext(given)
    if isinstance(given, AbstractAsyncContextManager):
        return cast("OpenTrial", given)
    raise InvalidSettings(
        f"{place} is no Trial and opens none: it gives {type(given).__qualname__} "
        "(see docs/how-to/adapter.md)"
    )


def _takes_nothing(given: Callable[..., object]) -> bool:
    try:
        signature(given).bind()
    except TypeError:
        return False
    return True
