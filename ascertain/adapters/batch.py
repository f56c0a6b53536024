"""What the answer to one call for many effects proves of each of them.

A batch can come out in parts: some done, some refused, some not mentioned. Each effect is judged by its own
item, by the same table as if it had been sent alone; what is not mentioned, or mentioned twice, is in doubt.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import pydantic_core
from pydantic import Field, JsonValue, field_validator

from ascertain.adapters import judgement, saying
from ascertain.adapters.place import Place
from ascertain.adapters.sending import Phase
from ascertain.adapters.template import Template
from ascertain.contracts.outcome import Refused
from ascertain.contracts.value import StrictValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ascertain.adapters.judgement import Reading
    from ascertain.adapters.throttle import Throttle
    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.outcome import Outcome

_SUCCESS: Final = 2
# Not 207: "see the items" says nothing of one.
_STATUSES: Final = frozenset(range(100, 600)) - {207}


class BatchForm(StrictValue):
    """How many effects are sent in one request, and where its answer tells of each.

    Attributes:
        url: Where to, below ``base_url`` or absolute. It carries the bodies that were frozen for each.
        body: The field of the request's JSON that holds the list of them; None: the JSON is the list.
        most: The most effects of one request.
        items: The list.
        effect_id: In each item, whose it is.
        status: In each item, its own status; None: that of the whole answer, if that is not 207.
    """

    url: Template
    body: str | None = None
    most: Annotated[int, Field(ge=2, le=1000)] = 50
    items: Place
    effect_id: Place
    status: Place | None = None

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: Template) -> Template:
        if any("secret:" in part for part in url.parts if isinstance(part, str)):
            raise ValueError(
                "secret:NAME stands in headers only: nothing else is kept out of the ledger"
            )
        return url

    def request_body(self, bodies: Sequence[str]) -> str:
        """The body of one request for all of them, each as it was frozen, byte for byte."""
        together = f"[{','.join(bodies)}]"
        return together if self.body is None else f"{{{json.dumps(self.body)}:{together}}}"


def judge_many(
    exchange: Exchange,
    form: BatchForm,
    effect_ids: Sequence[str],
    reading: Callable[[str], Reading],
    throttle: Throttle,
    *,
    now: datetime,
) -> list[Outcome]:
    """What one call came to for each of its effects, in their order.

    Args:
        exchange: What the wire says of the one call.
        form: Where its answer tells of each effect.
        effect_ids: What was sent.
        reading: How the item of an effect is read.
        throttle: Limits of a wait that the outside asks for.
        now: For a wait that is given as a date.

    Raises:
        PermitLost: Whatever a permit raised right before the first byte; nothing was sent for any of them.
    """

    def judged(effect_id: str, part: Exchange) -> Outcome:
        return judgement.judge(part, reading(effect_id), throttle, who=effect_id, now=now)

    status = exchange.status or 0
    if exchange.phase is not Phase.ANSWERED or status // 100 != _SUCCESS:
        return [_of_whole(judged(effect_id, exchange)) for effect_id in effect_ids]
    told = _told(exchange, form)
    return [
        _one(effect_id, told.get(effect_id, []), exchange, form, judged) for effect_id in effect_ids
    ]


def _of_whole(came_to: Outcome) -> Outcome:
    """What is said of all of them says why one cannot be done, but not which one."""
    if not isinstance(came_to, Refused):
        return came_to
    return saying.doubted(
        "batch_refused", f"the batch as a whole was refused: {came_to.error_class}"
    )


def _told(exchange: Exchange, form: BatchForm) -> dict[str, list[JsonValue]]:
    told: defaultdict[str, list[JsonValue]] = defaultdict(list)
    items = form.items.of(exchange)
    for item in items if isinstance(items, list) else []:
        effect_id = form.effect_id.within(item)
        if isinstance(effect_id, str):
            told[effect_id].append(item)
    return told


def _one(
    effect_id: str,
    items: list[JsonValue],
    exchange: Exchange,
    form: BatchForm,
    judged: Callable[[str, Exchange], Outcome],
) -> Outcome:
    if not items:
        cut = " (it was cut)" if exchange.truncated else ""
        return saying.doubted("not_mentioned", f"the batch's answer says nothing of it{cut}")
    if len(items) > 1:
        return saying.doubted("mentioned_twice", "the batch's answer tells of it more than once")
    status = exchange.status if form.status is None else form.status.within(items[0])
    if not isinstance(status, int) or status not in _STATUSES:
        return saying.doubted("no_status", "the batch's answer gives it no status")
    body = pydantic_core.to_json(items[0])
    return judged(effect_id, replace(exchange, status=status, body=body, truncated=False))
