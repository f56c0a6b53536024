"""The requests of the toy outside world that do something: ``POST``, ``PUT`` and ``DELETE`` of facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, cast

from aiohttp import web
from pydantic_core import from_json

from ascertain.contracts.value import JsonObject
from ascertain.testing.books import Books
from ascertain.testing.delivery import Courier
from ascertain.testing.entry import Submission
from ascertain.testing.knob import Answer, Drop, Knobs, Reply
from ascertain.testing.provider import Decision, Natural, Provider, error
from ascertain.testing.rulebook import Rulebook

_KEPT_HEADERS = frozenset(
    {"content-type", "idempotency-key", "if-none-match", "traceparent", "tracestate", "user-agent"}
)


@dataclass(frozen=True, slots=True)
class SubmitApi:
    """HTTP handlers over the parts of one outside."""

    books: Books
    rules: Rulebook
    provider: Provider
    courier: Courier

    def add_routes(self, app: web.Application) -> None:
        """Serve ``/facts``."""
        app.router.add_post("/facts", self._post)
        app.router.add_put("/facts/{reference}", self._put)
        app.router.add_delete("/facts/{id}", self._delete)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        return await self._submit(request, _head(request, "POST"))

    async def _put(self, request: web.Request) -> web.StreamResponse:
        reference = request.match_info["reference"]
        return await self._submit(request, _head(request, "PUT", reference=reference))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        fact_id = request.match_info["id"]
        return await self._submit(request, _head(request, "DELETE", deletes=fact_id))

    async def _submit(self, request: web.Request, head: Submission) -> web.StreamResponse:
        attempt = self._attempt(head)
        early = self.rules.peek("submit", head.key, head.reference, attempt).submit.reply
        if isinstance(early, Drop) and early.in_body:
            self.rules.take("submit", head.key, head.reference, attempt)
            self.provider.refuse(head, attempt, "discarded")
            return await self.courier.deliver(request, early, _discarded)
        # Nothing may be awaited between here and the entry in the books: it gives out attempt numbers.
        submission = _with_body(head, await request.read())
        if submission is None:
            self.provider.refuse(head, self._attempt(head), "invalid")
            return web.json_response({"error": {"code": "not_a_json_object"}}, status=400)
        decision, knobs = self._decided(submission)
        reply = Answer() if decision.ruling == "throttled" else knobs.submit.reply
        return await self.courier.deliver(request, reply, lambda: self.provider.reply(decision))

    async def one_of_many(self, request: web.Request, body: bytes) -> tuple[Reply, Natural | None]:
        """Decide one item of a batch.

        Returns:
            The reply that its knobs ask for, and what is told of it; None if that reply is no answer.
        """
        head = _head(request, "POST")
        submission = _with_body(head, body) or head
        decision, knobs = self._decided(submission)
        reply = knobs.submit.reply
        if not isinstance(reply, Answer):
            return reply, None
        if reply.status is None:
            return reply, await self.provider.reply(decision)
        content = reply.body if isinstance(reply.body, dict) else {}
        return reply, Natural(reply.status, content)

    def _decided(self, submission: Submission) -> tuple[Decision, Knobs]:
        attempt = self._attempt(submission)
        knobs = self.rules.take(
            "submit", submission.key, submission.reference, attempt, submission.content
        )
        return self.provider.submit(submission, attempt, knobs), knobs

    def _attempt(self, submission: Submission) -> int:
        if submission.key is not None:
            return self.books.count("submit", key=submission.key) + 1
        if submission.reference is not None:
            return self.books.count("submit", reference=submission.reference) + 1
        return 1


async def _discarded() -> Natural:
    return error(500, "discarded")


def peer_port(request: web.Request) -> int | None:
    """The client's port: two requests of one port came over one connection."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return None if peer is None else int(peer[1])


def _head(
    request: web.Request,
    method: Literal["POST", "PUT", "DELETE"],
    *,
    reference: str | None = None,
    deletes: str | None = None,
) -> Submission:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Submission(
        method=method,
        key=headers.get("idempotency-key"),
        reference=reference,
        sha256=hashlib.sha256(b"").hexdigest(),
        size_bytes=0,
        headers={name: headers[name] for name in headers if _is_kept(name)},
        peer_port=peer_port(request),
        deletes=deletes,
    )


def _is_kept(header: str) -> bool:
    return header in _KEPT_HEADERS or header.startswith("ce-")


def _with_body(head: Submission, body: bytes) -> Submission | None:
    """The submission with its body; None where a JSON object was due and none came."""
    content = _json_object(body)
    if content is None and (head.method == "POST" or (head.method == "DELETE" and body)):
        return None
    content = content or {}
    reference = content.get("reference") if head.reference is None else head.reference
    return head.model_copy(
        update={
            "reference": reference if isinstance(reference, str) else None,
            "content": content,
            "sha256": hashlib.sha256(body).hexdigest(),
            "size_bytes": len(body),
        }
    )


def _json_object(body: bytes) -> JsonObject | None:
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None
