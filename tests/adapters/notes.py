"""One declared kind at the toy outside world, for the tests of the ``http`` adapter."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

from ascertain.adapters.http import create
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ascertain.adapters.declared import DeclaredAdapter
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.testing.outside import Outside

KIND = "note.create"
INPUT = {"text": "hello", "amount": 1999}

FACTS = {
    "match": {"reference": "{effect_id}"},
    "external_id": "id",
    "happened_at": "committed_at",
    "state": "status",
    "found": ["succeeded"],
    "pending": ["running"],
    "refused": ["failed"],
    "differs": {"amount": "{input.amount}"},
}
OPTIONS: dict[str, Any] = {
    "headers": {"Authorization": "Bearer secret:KEY"},
    "reason": ["error.code"],
    "accepted": {"job_id": "job_id"},
    "request": {
        "method": "POST",
        "url": "/facts",
        "idempotency_header": "Idempotency-Key",
        "json": {
            "reference": "{effect_id}",
            "text": "{input.text}",
            "amount": "{input.amount}",
            "note": "{input.note?}",
        },
    },
    "proof": {
        "external_id": "id",
        "happened_at": "committed_at",
        "equals": {"reference": "{effect_id}", "status": "succeeded"},
        "keep": ["amount"],
    },
    "lookup": {
        "by": "reference",
        "lag": "PT0S",
        "url": "/facts",
        "params": {"reference": "{effect_id}"},
        "items": "data",
        "paging": {"param": "cursor", "next": "cursor"},
        **FACTS,
    },
    "job": {
        "url": "/jobs/{job_id}",
        "match": {"key": "{effect_id}"},
        "external_id": "fact.id",
        "state": "status",
        "found": ["succeeded"],
        "pending": ["running"],
        "refused": ["failed"],
    },
    "answers": [
        {"status": [429], "means": "refused_before_work"},
        {"status": [409], "where": {"error.code": "in_progress"}, "means": "in_progress"},
        {"status": [400, 409, 422], "where": {"error.code": "key_reused"}, "means": "key_reused"},
    ],
    "timeout": 4,
}


@contextlib.asynccontextmanager
async def adapter_for(outside: Outside, **changes: Any) -> AsyncIterator[DeclaredAdapter]:
    options = copy.deepcopy(OPTIONS) | {"base_url": outside.url} | changes
    adapter = create(KIND, {k: v for k, v in options.items() if v is not None}, GivenSecrets())
    try:
        yield adapter
    finally:
        await adapter.aclose()


EFFECT = effect(KIND, INPUT)


async def perform(adapter: DeclaredAdapter, **content: Any) -> Outcome:
    what = effect(KIND, INPUT | content)
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def lookup(adapter: DeclaredAdapter, job_id: str | None = None) -> Finding:
    asked = call(EFFECT, adapter.prepare(EFFECT), job_id=job_id)
    return await adapter.lookup(asked, within=WITHIN)
