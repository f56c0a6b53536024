"""The ``http`` adapter: an HTTP outside, described in the deployment file and without code.

::

    [kinds."note.create"]
    adapter = "http"
    semantics = { idempotent_for = "PT24H", compares_bodies = true }   # only what is really kept

    [kinds."note.create".options]
    base_url = "https://notes.example.com"
    headers = { Authorization = "Bearer secret:NOTES_KEY" }            # resolved when it is sent
    reason = ["error.code", "error.message"]

    [kinds."note.create".options.request]
    method = "POST"
    url = "/notes"
    idempotency_header = "Idempotency-Key"
    json = { reference = "{effect_id}", text = "{input.text}", tag = "{input.tag?}" }

    [kinds."note.create".options.proof]
    external_id = "id"
    equals = { reference = "{effect_id}", status = "created" }
    happened_at = "created_at"

    [kinds."note.create".options.lookup]
    by = "reference"
    lag = "PT0S"                                                       # read-after-write
    url = "/notes"
    params = { reference = "{effect_id}" }
    items = "data"
    paging = { param = "cursor", next = "cursor" }
    match = { reference = "{effect_id}" }
    external_id = "id"
    state = "status"
    found = ["created"]
    pending = ["queued"]
    refused = ["rejected"]
    differs = { text = "{input.text}" }

    [[kinds."note.create".options.answers]]
    status = [429, 503]
    means = "refused_before_work"

References: ``{effect_id}``, ``{task_id}``, ``{message_id}``, ``{step}``, ``{revision}``, ``{kind}``,
``{partition}``, ``{input....}``, ``{undoes.external_id}``, ``{undoes.effect_id}``; in lookups also
``{job_id}``, ``{body_sha256}`` (of the frozen request's body) and ``{since}`` or ``{since_unix}`` (an hour
before anything of it can have been sent). A trailing ``?`` leaves a missing value out.

A listing is never taken for complete before its end. More than one match, a match that differs, and a match
that does not name the effect are for a person to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.adapters.declaration import Declaration, read
from ascertain.adapters.declared import DeclaredAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.ports import Secrets


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> DeclaredAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    return DeclaredAdapter(read(Declaration, kind, options), secrets)
