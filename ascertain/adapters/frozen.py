"""A request as it is frozen before the first claim: every byte of it but the secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import httpx
from pydantic_core.core_schema import no_info_plain_validator_function

from ascertain.adapters import template
from ascertain.contracts.secret import NAMED
from ascertain.contracts.value import Value
from ascertain.errors import InvalidTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue
    from pydantic_core import CoreSchema

    from ascertain.adapters.template import Template
    from ascertain.ports import Secrets

MAX_BYTES: Final = 256 * 1024

_NOT_IN_HEADERS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class HeaderPiece(Value):
    """A piece of a header's value: text, or the name of a secret that is put in when it is sent."""

    text: str = ""
    secret: str | None = None


class FrozenRequest(Value):
    """One request, ready but for its secrets.

    Attributes:
        prepared_at: Seconds since 1970, before the first send from here; only where a lookup needs it.
    """

    version: Literal[1] = 1
    method: str
    url: str
    headers: tuple[tuple[str, tuple[HeaderPiece, ...]], ...] = ()
    body: str | None = None
    prepared_at: int | None = None

    def to_bytes(self) -> bytes:
        """The bytes to store.

        Raises:
            InvalidTask: They are more than 256 KiB.
        """
        frozen = self.model_dump_json(exclude_none=True).encode()
        if len(frozen) > MAX_BYTES:
            raise InvalidTask(f"the request is {len(frozen)} bytes; at most {MAX_BYTES} are kept")
        return frozen

    def with_secrets(self, secrets: Secrets) -> httpx.Request:
        """The request to send.

        Raises:
            MissingSecret: A secret that a header names is not here.
        """
        headers = [
            (name.encode(), "".join(_reveal(piece, secrets) for piece in pieces).encode())
            for name, pieces in self.headers
        ]
        # As a stream: who sends it states host and length, which httpx would do for a tenth of the call.
        content = httpx.ByteStream((self.body or "").encode())
        return httpx.Request(self.method, parsed(self.url), headers=headers, stream=content)

    def revealed(self, secrets: Secrets) -> tuple[str, ...]:
        """The secrets in it, so that they can be kept out of what is said about it."""
        pieces = [piece for _, pieces in self.headers for piece in pieces]
        return tuple(secrets.reveal(piece.secret) for piece in pieces if piece.secret is not None)


@lru_cache(maxsize=256)
def parsed(url: str) -> httpx.URL:
    """An address, which most effects of a kind share: to read it anew costs a tenth of a call.

    Raises:
        httpx.InvalidURL: It is none.
    """
    return httpx.URL(url)


def _reveal(piece: HeaderPiece, secrets: Secrets) -> str:
    return piece.text if piece.secret is None else secrets.reveal(piece.secret)


@dataclass(frozen=True, slots=True)
class HeaderForm:
    """A header's value in a deployment file: templates, and ``secret:NAME``.

    Secrets are found in the deployment's text only, so a task cannot name one.
    """

    parts: tuple[Template | str, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """In a model, it is read as it is written in a deployment file."""
        return no_info_plain_validator_function(parse_header)

    def render(self, scope: Mapping[str, JsonValue]) -> tuple[HeaderPiece, ...]:
        """The pieces of the value.

        Raises:
            MissingValueError: A reference leads to nothing, or to what fits into no header.
        """
        return tuple(
            HeaderPiece(secret=part) if isinstance(part, str) else _piece(part, scope)
            for part in self.parts
        )

    @property
    def templates(self) -> tuple[Template, ...]:
        """The templates in it."""
        return tuple(part for part in self.parts if not isinstance(part, str))


def _piece(part: Template, scope: Mapping[str, JsonValue]) -> HeaderPiece:
    text = part.text(scope)
    if _NOT_IN_HEADERS.search(text):
        raise template.MissingValueError("a control character fits into no header")
    return HeaderPiece(text=text)


def parse_header(text: object) -> HeaderForm:
    """Read a header's value as it is written in a deployment file."""
    if isinstance(text, HeaderForm):
        return text
    if not isinstance(text, str):
        raise ValueError("text is expected here")  # noqa: TRY004 - pydantic reports ValueError
    parts: list[Template | str] = []
    end = 0
    for found in NAMED.finditer(text):
        if found.start() > end:
            parts.append(template.parse(text[end : found.start()]))
        parts.append(found[1])
        end = found.end()
    if end < len(text) or not parts:
        parts.append(template.parse(text[end:]))
    return HeaderForm(tuple(parts))
