"""How the adapter is tried: against which outside, with which inputs, and who counts the facts."""

# ruff: noqa: INP001 - a module of one's own, not a package
from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ascertain.testing.conformance import Trial
from ascertain.testing.knob import Dedupe, Knobs
from ascertain.testing.outside import Outside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def letters() -> AsyncIterator[Trial]:
    """The adapter, against the toy outside; put a test account of the real one in its place."""
    async with Outside(Knobs(dedupe=Dedupe(by="key_and_body"))) as outside:

        async def facts(effect_id: str) -> int:
            return len(outside.books.facts_of(effect_id))

        yield Trial(
            kind=lambda url: {
                "adapter": "letters:create",
                "options": {"base_url": url, "token": "secret:TOKEN", "timeout": 1},
            },
            secrets=lambda _: {"TOKEN": "tok_s3cret"},
            input=lambda number: {"text": f"letter {number}"},
            outside=outside.url,
            facts=facts,
        )
