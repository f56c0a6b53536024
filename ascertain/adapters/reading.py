"""Answers read as a deployment file says: meaning, proof, receipt, reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pydantic_core

from ascertain.adapters.judgement import Meaning, meaning_of
from ascertain.adapters.place import id_in, same, time_in
from ascertain.contracts.effect import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import JsonValue

    from ascertain.adapters.answer_form import AnswerRule
    from ascertain.adapters.declaration import Declaration
    from ascertain.adapters.place import Place
    from ascertain.adapters.template import Form
    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.value import JsonObject

_RECEIPT_BYTES: Final = 2048
_HIDDEN: Final = "[secret]"


@dataclass(frozen=True, slots=True)
class DeclaredReading:
    """How the answers to one call are read.

    Attributes:
        scope: What references lead to.
        secrets: Never repeated, should the outside echo them.
    """

    declaration: Declaration
    scope: Mapping[str, JsonValue]
    secrets: tuple[str, ...] = ()

    def meaning(self, exchange: Exchange) -> Meaning:
        """By the first rule that fits, or else by the table of statuses."""
        for rule in self.declaration.answers:
            if fits(rule, exchange):
                return rule.means
        return meaning_of(exchange.status or 0)

    def proof(self, exchange: Exchange) -> Receipt | None:
        """A receipt if all that the proof names is in the answer."""
        form = self.declaration.proof
        external_id = id_in(form.external_id.of(exchange))
        if external_id is None or (form.statuses and exchange.status not in form.statuses):
            return None
        if any(place.of(exchange) in (None, "") for place in form.require):
            return None
        if unequal(form.equals, {p: p.of(exchange) for p in form.equals}, self.scope):
            return None
        kept = {p.text: p.of(exchange) for p in (*form.require, *form.equals, *form.keep)}
        body, cut = small(kept, self.secrets)
        return Receipt(
            external_id=external_id,
            happened_at=None
            if form.happened_at is None
            else time_in(form.happened_at.of(exchange)),
            body=body,
            digest=exchange.sha256,
            truncated=cut or exchange.truncated,
        )

    def job_id(self, exchange: Exchange) -> str:
        """The outside's id of accepted work, or else the effect's own, by which it can be asked for."""
        form = self.declaration.accepted
        given = None if form is None else id_in(form.job_id.of(exchange))
        return given or str(self.scope["effect_id"])

    def reason(self, exchange: Exchange) -> str:
        """The first reason that is there."""
        values = (place.of(exchange) for place in self.declaration.reason)
        return first_text(values, self.secrets)


def unequal(
    wanted: Mapping[Place, Form], there: Mapping[Place, JsonValue], scope: Mapping[str, JsonValue]
) -> dict[str, tuple[JsonValue, JsonValue]]:
    """The places whose value is not the wanted one: wanted and found."""
    rendered = {p: f.render(scope) for p, f in wanted.items() if not f.left_out(scope)}
    return {
        place.text: (value, there[place])
        for place, value in rendered.items()
        if not same(value, there[place])
    }


def first_text(values: Iterable[JsonValue], secrets: Sequence[str] = ()) -> str:
    """The first value that is text or a number, as text without secrets; empty if there is none."""
    for value in values:
        if isinstance(value, str | int | float) and value != "":
            text = value if isinstance(value, str) else pydantic_core.to_json(value).decode()
            return _without(text, secrets)
    return ""


def small(values: Mapping[str, JsonValue], secrets: Sequence[str] = ()) -> tuple[JsonObject, bool]:
    """As many of the values as fit into a receipt, and whether any did not."""
    kept: JsonObject = {}
    room = _RECEIPT_BYTES - 2
    for name, value in values.items():
        shown = _without(value, secrets) if isinstance(value, str) else value
        size = len(pydantic_core.to_json({name: shown}))
        if size <= room:
            kept[name] = shown
            room -= size
    return kept, len(kept) < len(values)


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text


def fits(rule: AnswerRule, exchange: Exchange) -> bool:
    """Whether a rule speaks of this answer."""
    return exchange.status in rule.status and all(
        any(same(place.of(exchange), value) for value in _values(allowed))
        for place, allowed in rule.where.items()
    )


def _values(allowed: JsonValue) -> Sequence[JsonValue]:
    return allowed if isinstance(allowed, list) else (allowed,)
