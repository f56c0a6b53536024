"""The ``webhook`` adapter: an event told to somebody else, as a signed CloudEvent.

::

    [kinds."order.notify"]
    adapter = "webhook"
    semantics = { idempotent_for = "P7D" }      # only if the consumer drops events that it has seen

    [kinds."order.notify".options]
    url = "https://partner.example.com/hooks"
    source = "https://shop.example.com"
    sign = ["secret:HOOK"]

The event's ``id`` and the ``webhook-id`` header are the effect's id in every attempt, so a consumer can drop
repeats. Whether it does is its own affair: unless the deployment says so, a lost answer goes to a person.

Source:
    CloudEvents 1.0, JSON event format; the Standard Webhooks specification (headers, ``v1`` signatures).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import httpx
from pydantic import Field, JsonValue, StringConstraints

from ascertain.adapters import judgement, saying
from ascertain.adapters.answer_form import AnswerRule
from ascertain.adapters.declaration import WireForm, read
from ascertain.adapters.judgement import Meaning, meaning_of
from ascertain.adapters.reading import fits
from ascertain.adapters.sending import Sending
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import Wire
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Unknowable
from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidTask, MissingSecret
from ascertain.keys import canonical
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Permit, Secrets

_SUCCESS: Final = 2
_PREFIX: Final = "whsec_"
_AROUND: Final = timedelta(milliseconds=500)

Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=500)]


class EventInput(StrictValue):
    """The input of an event.

    Attributes:
        type: What happened, such as ``com.example.order.paid``.
        subject: To what.
        time: When, ISO 8601; default: when the effect was first prepared.
    """

    type: Line
    subject: Line | None = None
    time: datetime | None = None
    data: JsonValue = None


class WebhookOptions(StrictValue):
    """What a deployment says.

    Attributes:
        source: Who tells it, as a URI; with the id it names the event for ever.
        sign: Secrets of Standard Webhooks (``whsec_`` and base64). With two, consumers can change over.
        answers: What particular answers mean, before the table of statuses.
    """

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^/?#@\s]+([/?]\S*)?$")]
    source: Line
    sign: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^secret:[A-Za-z0-9_]+$")], ...],
        Field(min_length=1, max_length=3),
    ]
    answers: tuple[AnswerRule, ...] = ()
    timeout: timedelta = timedelta(seconds=4.5)
    throttle: Throttle = Throttle()
    wire: WireForm = WireForm()


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> WebhookAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    return WebhookAdapter(read(WebhookOptions, kind, options), secrets)


class WebhookAdapter:
    """Tells one event, once per attempt."""

    def __init__(self, options: WebhookOptions, secrets: Secrets) -> None:
        self._options = options
        self._secrets = secrets
        self._wire = Wire(options.wire.settings())

    @property
    def semantics(self) -> Semantics:
        """No lookup, and no promise that a consumer drops repeats."""
        return Semantics(max_duration=self._options.timeout + _AROUND)

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the event, byte for byte.

        Raises:
            InvalidTask: The input is wrong or too large.
        """
        given = saying.checked(EventInput, effect.input)
        event: JsonObject = {
            "specversion": "1.0",
            "id": effect.effect_id,
            "source": self._options.source,
            "type": given.type,
            "time": _aware(given.time or datetime.now(UTC)).isoformat(),
            "datacontenttype": "application/json",
            "data": given.data,
        }
        if given.subject is not None:
            event["subject"] = given.subject
        frozen = canonical(event)
        if len(frozen) > FROZEN_MAX_BYTES:
            raise InvalidTask(
                f"the event is {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept"
            )
        return frozen

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Send the frozen event, signed for this moment.

        Raises:
            PermitLost: Nothing was sent.
        """
        effect_id = call.effect.effect_id
        try:
            headers = self._headers(effect_id, int(time.time()), call.frozen)
        except MissingSecret as error:
            return saying.unsent(error.code, str(error))
        except binascii.Error:
            return saying.unsent("bad_secret", "a signing secret is no base64; nothing was sent")
        exchange = await self._wire.exchange(
            httpx.Request("POST", self._options.url, headers=headers, content=call.frozen),
            within=self._options.timeout,
            sending=Sending(permit.check),
        )
        return judgement.judge(
            exchange,
            _EventReading(effect_id, self._options.answers),
            self._options.throttle,
            who=f"{effect_id}:{call.attempt}",
            now=datetime.now(UTC),
        )

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """A consumer cannot be asked."""
        del within
        return Unknowable(detail=f"ask the consumer whether it has event {call.effect.effect_id}")

    async def aclose(self) -> None:
        """Close every connection."""
        await self._wire.aclose()

    def _headers(self, effect_id: str, now: int, body: bytes) -> dict[str, str]:
        signed = f"{effect_id}.{now}.".encode() + body
        keys = [self._secrets.reveal(name.removeprefix("secret:")) for name in self._options.sign]
        return {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "webhook-id": effect_id,
            "webhook-timestamp": str(now),
            "webhook-signature": " ".join(_signature(key, signed) for key in keys),
        }


@dataclass(frozen=True, slots=True)
class _EventReading:
    """A consumer's answer: its status says everything."""

    effect_id: str
    answers: tuple[AnswerRule, ...]

    def meaning(self, exchange: Exchange) -> Meaning:
        """Any 2xx has taken the event, 202 too: what the consumer does with it is its own affair."""
        for rule in self.answers:
            if fits(rule, exchange):
                return rule.means
        status = exchange.status or 0
        return Meaning.PROOF if status // 100 == _SUCCESS else meaning_of(status)

    def proof(self, exchange: Exchange) -> Receipt | None:
        """The status is the proof."""
        body: JsonObject = {"status": exchange.status}
        return Receipt(external_id=self.effect_id, body=body, digest=exchange.sha256)

    def job_id(self, exchange: Exchange) -> str:
        """Events are not worked on."""
        del exchange
        return self.effect_id

    def reason(self, exchange: Exchange) -> str:
        """What a consumer writes is not repeated."""
        del exchange
        return ""


def _signature(key: str, signed: bytes) -> str:
    raw = base64.b64decode(key.removeprefix(_PREFIX), validate=True)
    return "v1," + base64.b64encode(hmac.new(raw, signed, hashlib.sha256).digest()).decode()


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
