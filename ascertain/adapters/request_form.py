"""Requests as a deployment file writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from ascertain.adapters.frozen import HeaderForm
from ascertain.adapters.template import Form, Template
from ascertain.contracts.value import StrictValue

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN_HEADERS: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"{name!r} is no header name")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"{name} is the HTTP layer's own")
    return name


HeaderName = Annotated[str, AfterValidator(_header_name)]


class RequestForm(StrictValue):
    """A request with references in it.

    Attributes:
        url: Absolute, or beginning with ``/`` below ``base_url``.
        params: Added to the query.
        body_json: Sent as JSON. In the file: ``json``.
        form: Sent form-encoded; the names are sent as they are written.
    """

    url: Template
    params: dict[str, Template] = Field(default_factory=dict)
    headers: dict[HeaderName, HeaderForm] = Field(default_factory=dict)
    body_json: Annotated[Form | None, Field(alias="json")] = None
    form: dict[str, Template] | None = None

    @model_validator(mode="after")
    def _one_body(self) -> RequestForm:
        if self.body_json is not None and self.form is not None:
            raise ValueError("either json or form, not both")
        if any(
            "secret:" in part for t in self._plain() for part in t.parts if isinstance(part, str)
        ):
            raise ValueError(
                "secret:NAME stands in headers only: nothing else is kept out of the ledger"
            )
        return self

    def _plain(self) -> Iterator[Template]:
        yield self.url
        yield from self.params.values()
        yield from (self.form or {}).values()
        if self.body_json is not None:
            yield from self.body_json.templates()

    def roots(self) -> set[str]:
        """The first words of all references in it."""
        headers = (template for form in self.headers.values() for template in form.templates)
        return {r.root for t in (*self._plain(), *headers) for r in t.references}


class WriteForm(RequestForm):
    """The request that does it. ``idempotency_header`` carries the effect_id."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    idempotency_header: HeaderName | None = None
