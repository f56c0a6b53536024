"""Requests made from what a deployment file declares: the one that does it, those that ask, and batches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx

from ascertain.adapters.frozen import FrozenRequest, HeaderPiece, parsed
from ascertain.adapters.template import MissingValueError
from ascertain.errors import InvalidTask
from ascertain.keys import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from ascertain.adapters.batch import BatchForm
    from ascertain.adapters.declaration import Declaration
    from ascertain.adapters.question_form import QuestionForm
    from ascertain.adapters.request_form import RequestForm


@dataclass(frozen=True, slots=True)
class Rendering:
    """Fills a declaration's references in."""

    declaration: Declaration

    def write(self, effect_id: str, scope: Mapping[str, JsonValue]) -> FrozenRequest:
        """The request that does it.

        Raises:
            MissingValueError: A reference leads to nothing, or to what does not fit there.
        """
        form = self.declaration.request
        body, content_type = _body(form, scope)
        headers = self._headers(form, scope, content_type)
        if form.idempotency_header is not None:
            headers[form.idempotency_header.lower()] = (HeaderPiece(text=effect_id),)
        return FrozenRequest(
            method=form.method,
            url=self._url(form, scope, {}),
            headers=tuple(headers.items()),
            body=body,
            prepared_at=int(time.time()) if self.declaration.needs_time() else None,
        )

    def question(
        self, form: QuestionForm, scope: Mapping[str, JsonValue], params: Mapping[str, str]
    ) -> FrozenRequest:
        """One page of a lookup or a listing.

        Args:
            form: What is asked.
            scope: What references lead to.
            params: Of the page, added to the query.

        Raises:
            MissingValueError: As for ``write``.
        """
        body, content_type = _body(form, scope)
        return FrozenRequest(
            method=form.method,
            url=self._url(form, scope, params),
            headers=tuple(self._headers(form, scope, content_type).items()),
            body=body,
        )

    def batch(self, form: BatchForm, frozen: Sequence[FrozenRequest]) -> FrozenRequest:
        """One request for all of them, each with the body that was frozen for it.

        Raises:
            InvalidTask: One was frozen without a body.
        """
        bodies = [each.body for each in frozen if each.body is not None]
        if len(bodies) != len(frozen):
            raise InvalidTask("it was frozen without a body, of which a batch is made")
        headers: dict[str, tuple[HeaderPiece, ...]] = {
            "content-type": (HeaderPiece(text="application/json"),)
        }
        headers |= {name.lower(): v.render({}) for name, v in self.declaration.headers.items()}
        return FrozenRequest(
            method=self.declaration.request.method,
            url=self.declaration.address(form.url, {}),
            headers=tuple(headers.items()),
            body=form.request_body(bodies),
        )

    def _headers(
        self, form: RequestForm, scope: Mapping[str, JsonValue], content_type: str | None
    ) -> dict[str, tuple[HeaderPiece, ...]]:
        headers: dict[str, tuple[HeaderPiece, ...]] = {}
        if content_type is not None:
            headers["content-type"] = (HeaderPiece(text=content_type),)
        for name, value in (*self.declaration.headers.items(), *form.headers.items()):
            headers[name.lower()] = value.render(scope)
        return headers

    def _url(
        self, form: RequestForm, scope: Mapping[str, JsonValue], params: Mapping[str, str]
    ) -> str:
        address = self.declaration.address(form.url, scope)
        declared = {n: t.text(scope) for n, t in form.params.items() if not t.left_out(scope)}
        query = urlencode({**declared, **params})
        url = f"{address}{'&' if '?' in address else '?'}{query}" if query else address
        try:
            return str(parsed(url))
        except httpx.InvalidURL as error:
            raise MissingValueError(f"no address can be made of it: {error}") from error


def _body(form: RequestForm, scope: Mapping[str, JsonValue]) -> tuple[str | None, str | None]:
    if form.body_json is not None:
        return canonical(form.body_json.render(scope)).decode(), "application/json"
    if form.form is not None:
        fields = {n: t.text(scope) for n, t in form.form.items() if not t.left_out(scope)}
        return urlencode(fields), "application/x-www-form-urlencoded"
    return None, None
