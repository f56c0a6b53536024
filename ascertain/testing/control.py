"""Sets the knobs of a toy outside world that runs in another process, and reads its books."""

from __future__ import annotations

from http import HTTPStatus
from typing import Self

import aiohttp
from pydantic import BaseModel

from ascertain.contracts.value import JsonObject
from ascertain.testing.books import ShelfName
from ascertain.testing.control_api import FactChange, HandMade, JobChange
from ascertain.testing.entry import Copy, Fact
from ascertain.testing.knob import JobStatus, Knobs, Rule


class OutsideControl:
    """A client of ``/_control``; ``async with`` opens and closes it.

    Args:
        url: The outside's own address, not that of a proxy in front of it.

    Raises:
        RuntimeError: From any method: the outside refused; the message is its answer.
        aiohttp.ClientError: From any method: the outside cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/_control"
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._http is not None:
            await self._http.close()

    async def set_knobs(self, knobs: Knobs) -> None:
        """Replace the default knobs."""
        await self._call("PUT", "/knobs", knobs)

    async def add_rules(self, *rules: Rule) -> None:
        """Put rules behind those that stand."""
        for rule in rules:
            await self._call("POST", "/rules", rule)

    async def clear_rules(self) -> None:
        """Drop all rules; the default knobs stay."""
        await self._call("DELETE", "/rules")

    async def reset(self) -> None:
        """Empty books, no rules, default knobs."""
        await self._call("DELETE", "/books")

    async def books(self) -> Copy:
        """The books as they are now."""
        return Copy.model_validate_json(await self._call("GET", "/books"))

    async def facts_of(self, reference: str) -> list[Fact]:
        """Every fact of this reference, also those removed later."""
        return (await self.books()).facts_of(reference)

    async def wait_for(
        self,
        shelf: ShelfName,
        count: int = 1,
        *,
        key: str | None = None,
        reference: str | None = None,
        within_s: float = 40,
    ) -> None:
        """Wait until there are ``count`` submits, facts or lookups of a key, a reference, or in all.

        Raises:
            TimeoutError: There were fewer within ``within_s``.
        """
        query = {"shelf": shelf, "count": str(count), "within_s": str(within_s)}
        query |= {} if key is None else {"key": key}
        query |= {} if reference is None else {"reference": reference}
        await self._call("GET", "/wait", query=query)

    async def make_fact(
        self,
        *,
        key: str | None = None,
        reference: str | None = None,
        content: JsonObject | None = None,
    ) -> Fact:
        """Make a fact by hand, as a person or another system would, without a submit."""
        made = HandMade(key=key, reference=reference, content=content or {})
        return Fact.model_validate_json(await self._call("POST", "/facts", made))

    async def set_fact_status(self, fact_id: str, status: str) -> None:
        """Change a fact's status; lookups show it at once."""
        await self._call("PATCH", f"/facts/{fact_id}", FactChange(status=status))

    async def remove_fact(self, fact_id: str) -> None:
        """Take a fact away from the outside; the books keep it."""
        await self._call("PATCH", f"/facts/{fact_id}", FactChange(removed=True))

    async def set_job(self, job_id: str, status: JobStatus) -> None:
        """Set a job's status; ``succeeded`` commits its fact, once."""
        await self._call("PATCH", f"/jobs/{job_id}", JobChange(status=status))

    async def _call(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        query: dict[str, str] | None = None,
    ) -> bytes:
        if self._http is None:
            msg = "use OutsideControl with 'async with'"
            raise RuntimeError(msg)
        data = None if body is None else body.model_dump_json()
        async with self._http.request(method, self._url + path, data=data, params=query) as reply:
            answer = await reply.read()
            if reply.status == HTTPStatus.REQUEST_TIMEOUT:
                raise TimeoutError(answer.decode())
            if not reply.ok:
                msg = f"{method} {path}: {reply.status} {answer.decode(errors='replace')}"
                raise RuntimeError(msg)
            return answer
