"""An adapter to copy: it posts letters at an HTTP outside, and can ask for them."""

# ruff: noqa: INP001 - a module of one's own, not a package
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx

from ascertain import keys
from ascertain.adapters import judgement, saying
from ascertain.adapters.judgement import Meaning, meaning_of
from ascertain.adapters.sending import Phase, Sending
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import Wire
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Absent, Differs, Found, Several
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import StrictValue
from ascertain.errors import LookupDown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Permit, Secrets


class Letter(StrictValue):
    """The input of one effect."""

    text: str


class Options(StrictValue):
    """What the deployment file says."""

    base_url: str
    token: str
    timeout: timedelta = timedelta(seconds=4)


class Letters:
    """Posts one letter, under the effect's id."""

    def __init__(self, options: Options, secrets: Secrets) -> None:
        """Keep what is needed; connect when first used."""
        self.options = options
        self.secrets = secrets
        self.wire = Wire()

    @property
    def semantics(self) -> Semantics:
        """What this outside promises: no more than it keeps."""
        return Semantics(
            idempotent_for=timedelta(hours=24),
            compares_bodies=True,
            lookup=LookupBy.REFERENCE,
            in_flight_max=timedelta(seconds=5),
            max_duration=self.options.timeout + timedelta(seconds=0.5),
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the bytes that every attempt sends."""
        letter = saying.checked(Letter, effect.input)
        return keys.canonical({"reference": effect.effect_id, "text": letter.text})

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Send them once; the permit is checked before the first byte leaves."""
        exchange = await self.wire.exchange(
            self.request("POST", call, content=call.frozen),
            within=self.options.timeout,
            sending=Sending(permit.check),
        )
        now = datetime.now(UTC)  # noqa: TID251 - an adapter may read the clock
        return judgement.judge(exchange, Answer(), Throttle(), who=call.effect.effect_id, now=now)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Ask for all letters with this reference, and compare."""
        request = self.request("GET", call, params={"reference": call.effect.effect_id})
        letters = listed(await self.wire.exchange(request, within=within))
        if not letters:
            return Absent()
        ids = [str(letter["id"]) for letter in letters]
        if len(letters) > 1:
            return Several(external_ids=tuple(ids))
        wanted: JsonObject = {"text": call.effect.input["text"]}
        there: JsonObject = {"text": letters[0].get("text")}
        if there != wanted:
            return Differs(external_id=ids[0], expected=wanted, found=there)
        return Found(receipt=Receipt(external_id=ids[0]))

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.wire.aclose()

    def request(
        self,
        method: str,
        call: Call,
        *,
        content: bytes | None = None,
        params: dict[str, str] | None = None,
    ) -> httpx.Request:
        """One request; the secret is read at the last moment and kept nowhere."""
        token = self.secrets.reveal(self.options.token.removeprefix("secret:"))
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": call.effect.effect_id}
        url = f"{self.options.base_url}/facts"
        return httpx.Request(method, url, params=params, headers=headers, content=content)


class Answer:
    """How this outside's answers are read; what is not said here is in the table of statuses."""

    def meaning(self, exchange: Exchange) -> Meaning:
        """Another body under a key that was used is answered with 400."""
        if self.reason(exchange) == "key_reused":
            return Meaning.KEY_REUSED
        return meaning_of(exchange.status or 0)

    def proof(self, exchange: Exchange) -> Receipt | None:
        """A letter that was posted has an id and the reference that it was given."""
        answer = exchange.json()
        if not isinstance(answer, dict) or "reference" not in answer:
            return None
        return Receipt(external_id=str(answer["id"]), digest=exchange.sha256)

    def job_id(self, exchange: Exchange) -> str:
        """Nothing is accepted to be done later."""
        raise NotImplementedError(exchange.status)

    def reason(self, exchange: Exchange) -> str:
        """The outside's own word for why not."""
        answer = exchange.json()
        error = answer.get("error") if isinstance(answer, dict) else None
        return str(error.get("code", "")) if isinstance(error, dict) else ""


def listed(exchange: Exchange) -> list[dict[str, JsonValue]]:
    """The whole list, or LookupDown: half a list proves nothing."""
    answer = exchange.json() if exchange.phase is Phase.ANSWERED else None
    data = answer.get("data") if isinstance(answer, dict) else None
    if exchange.status != httpx.codes.OK or not isinstance(data, list):
        raise LookupDown(f"the letters cannot be listed (HTTP {exchange.status})")
    if isinstance(answer, dict) and answer.get("has_more"):
        raise LookupDown("there are more letters of one reference than fit on a page")
    return [letter for letter in data if isinstance(letter, dict)]


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> Letters:
    """Build it from its table in the deployment file."""
    del kind
    return Letters(Options.model_validate(dict(options)), secrets)
