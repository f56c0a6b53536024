"""The ``generate`` adapter: a text or picture from an OpenAI-compatible API, kept under the effect's id.

::

    [kinds."image.generate"]
    adapter = "generate"

    [kinds."image.generate".options]
    base_url = "https://api.openai.com/v1"
    api_key = "secret:OPENAI_KEY"
    request = { model = "gpt-5", input = "{input.prompt}", tools = [{ type = "image_generation" }] }
    publish = { url = "s3://generated", key = "{effect_id}.json" }

With ``api = "responses"`` the work runs in the background: its id is recorded before anything is asked, and
it is asked for until it ends. With ``api = "chat"`` one request waits for the answer. The whole answer is
published under the effect's id, so that it can be found whatever becomes of us; the receipt has the tokens.

These APIs honour no key and list nothing: if the answer to the request itself is lost, nobody can tell
whether the work runs and is billed. Then a person decides, unless the deployment says ``harmless``, which
means: paying twice is fine.

Source:
    OpenAI's API reference: Responses (``background``, ``store``, retrieve) and Chat Completions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

import httpx
import pydantic_core
from pydantic import AfterValidator, JsonValue, StringConstraints

from ascertain.adapters import judgement, saying
from ascertain.adapters.bucket import Bucket, BucketForm
from ascertain.adapters.declaration import WireForm, read
from ascertain.adapters.judgement import Meaning, meaning_of
from ascertain.adapters.place import Place, id_in, parse as parse_place, time_in
from ascertain.adapters.reading import first_text, small
from ascertain.adapters.sending import Phase, Sending
from ascertain.adapters.template import (
    ABOUT_EFFECT,
    Form,
    MissingValueError,
    Template,
    parse,
    scope_of,
)
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import Wire
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Absent, Differs, Found, Pending, Refused, Unknowable
from ascertain.contracts.outcome import Settled
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import StrictValue, Value
from ascertain.errors import InvalidTask, LookupDown, MissingSecret
from ascertain.keys import canonical
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.adapters.bucket import Kept
    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Permit, Secrets

_AROUND: Final = timedelta(seconds=10)
_OK: Final = 200
_NOT_FOUND: Final = 404
_WORKED_ON: Final = frozenset({"queued", "in_progress"})
# An answer that was cut short by a limit of tokens is an answer, and is paid for.
_ENDED: Final = frozenset({"completed", "incomplete"})
_FAILED: Final = frozenset({"failed", "cancelled"})
_REASON: Final[tuple[Place, ...]] = tuple(
    parse_place(text) for text in ("error.code", "error.type", "error.message")
)
_KEPT: Final[tuple[Place, ...]] = tuple(parse_place(text) for text in ("model", "status", "usage"))


def _about_effect(form: Form) -> Form:
    unknown = {r.root for t in form.templates() for r in t.references} - ABOUT_EFFECT
    if unknown:
        raise ValueError(f"{{{min(unknown)}}} is not known before it is done")
    if not isinstance(form.shape, dict):
        raise ValueError("a table is expected here")  # noqa: TRY004 - pydantic reports ValueError
    return form


class ResultForm(BucketForm):
    """Where the answer is kept."""

    key: Template = parse("{effect_id}.json")


class GenerateOptions(StrictValue):
    """What a deployment says.

    Attributes:
        request: The request's body, with references; what the adapter adds is ``background`` and ``store``.
        harmless: A request whose answer is lost may be made, and paid for, again.
        timeout: Of one request: the whole generation with ``chat``.
    """

    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^?#@\s]+$")]
    api_key: Annotated[str, StringConstraints(pattern=r"^secret:[A-Za-z0-9_]+$")]
    api: Literal["responses", "chat"] = "responses"
    request: Annotated[Form, AfterValidator(_about_effect)]
    publish: ResultForm
    harmless: bool = False
    timeout: timedelta = timedelta(minutes=10)
    throttle: Throttle = Throttle()
    wire: WireForm = WireForm(max_body_bytes=32 << 20)

    @property
    def path(self) -> str:
        """Where requests go."""
        what = "responses" if self.api == "responses" else "chat/completions"
        return f"{self.base_url.rstrip('/')}/{what}"


class FrozenGeneration(Value):
    """One request, ready but for its key."""

    version: Literal[1] = 1
    body: str
    key: str


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> GenerateAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    chosen = read(GenerateOptions, kind, options)
    return GenerateAdapter(chosen, Bucket(kind, chosen.publish, secrets), secrets)


class GenerateAdapter:
    """Has one thing generated, and keeps it."""

    def __init__(self, options: GenerateOptions, bucket: Bucket, secrets: Secrets) -> None:
        self._options = options
        self._bucket = bucket
        self._secrets = secrets
        self._wire = Wire(options.wire.settings())

    @property
    def semantics(self) -> Semantics:
        """Found by the published object, or by the job while its id is known."""
        return Semantics(
            lookup=LookupBy.KEY,
            in_flight_max=self._options.timeout,
            max_duration=self._options.timeout + _AROUND,
            harmless=self._options.harmless,
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the request and the result's name.

        Raises:
            InvalidTask: A value is missing, or the request is too large.
        """
        scope = scope_of(effect, effect.input)
        try:
            body = self._options.request.render(scope)
            key = self._options.publish.key.text(scope, in_address=True)
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        mode: JsonObject = {
            "background": True,
            "store": True,
            "metadata": {"effect_id": effect.effect_id},
        }
        whole = {**(body if isinstance(body, dict) else {}), **(mode if self._background else {})}
        frozen = (
            FrozenGeneration(body=canonical(whole).decode(), key=key).model_dump_json().encode()
        )
        if len(frozen) > FROZEN_MAX_BYTES:
            raise InvalidTask(
                f"the request is {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept"
            )
        return frozen

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Make the request once; with ``chat``, keep its answer.

        Raises:
            PermitLost: Nothing was sent.
        """
        frozen = FrozenGeneration.model_validate_json(call.frozen)
        try:
            request = self._request("POST", self._options.path, frozen.body.encode())
        except MissingSecret as error:
            return saying.unsent(error.code, str(error))
        exchange = await self._wire.exchange(
            request, within=self._options.timeout, sending=Sending(permit.check)
        )
        came_to = judgement.judge(
            exchange,
            _Answer(call.effect.effect_id, background=self._background),
            self._options.throttle,
            who=f"{call.effect.effect_id}:{call.attempt}",
            now=datetime.now(UTC),
        )
        if not isinstance(came_to, Settled):
            return came_to
        try:
            kept = await self._keep(call, frozen.key, exchange)
        except LookupDown as error:
            return saying.doubted("not_kept", f"it was generated, and not kept: {error}")
        if not isinstance(kept, Found):
            why = f"it was generated, and not kept, for {frozen.key} is there already"
            return saying.doubted("not_kept", why)
        return Settled(receipt=kept.receipt, evidence=came_to.evidence)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Look for the kept answer, then ask for the job, whose answer is kept as soon as it is there.

        Raises:
            LookupDown: The store or the API cannot be asked now.
        """
        frozen = FrozenGeneration.model_validate_json(call.frozen)
        kept = await self._bucket.find(frozen.key, wanted=self._fits)
        if kept is not None:
            return _found(kept, call.effect.effect_id)
        if call.job_id is None:
            return Unknowable(
                detail="nothing is kept, and the API cannot be asked for a request whose answer is lost"
            )
        try:
            request = self._request("GET", f"{self._options.path}/{call.job_id}", None)
        except MissingSecret as error:
            raise LookupDown(str(error)) from error
        exchange = await self._wire.exchange(request, within=within)
        return await self._read(call, frozen.key, exchange)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._wire.aclose()

    @property
    def _background(self) -> bool:
        return self._options.api == "responses"

    def _request(self, method: str, url: str, body: bytes | None) -> httpx.Request:
        key = self._secrets.reveal(self._options.api_key.removeprefix("secret:"))
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return httpx.Request(method, url, headers=headers, content=body)

    def _fits(self, size: int) -> bool:
        return size <= self._options.wire.max_body_bytes

    async def _read(self, call: Call, key: str, exchange: Exchange) -> Finding:
        if exchange.phase is not Phase.ANSWERED:
            raise LookupDown(exchange.detail)
        if exchange.status == _NOT_FOUND:
            return Absent(detail=f"the API does not know {call.job_id}")
        answer = exchange.json()
        if exchange.status == _OK and exchange.truncated:
            # Only a person can help, so nobody waits for it as for an API that is down.
            limit = self._options.wire.max_body_bytes
            why = f"is longer than {limit} bytes, so it was not kept: raise wire.max_body_bytes"
            return Unknowable(detail=f"what the API has of {call.job_id} {why}")
        if exchange.status != _OK or not isinstance(answer, dict):
            raise LookupDown(f"the API answered the lookup with HTTP {exchange.status}")
        status = answer.get("status")
        if status in _WORKED_ON:
            return Pending(job_id=call.job_id, detail=f"still {status}")
        if status in _FAILED:
            reason = first_text([place.within(answer) for place in _REASON])
            return Refused(error_class=f"generation_{status}", detail=f"{call.job_id}: {reason}")
        if status in _ENDED:
            return await self._keep(call, key, exchange)
        return Unknowable(detail=f"a state that is not known: {status!r}")

    async def _keep(self, call: Call, key: str, exchange: Exchange) -> Found | Differs | Unknowable:
        """Publish the answer, unless one of this effect is there already, and say what is kept.

        Raises:
            LookupDown: It could not be published now.
        """
        effect_id = call.effect.effect_id

        async def permitted() -> None:
            """A copy under the effect's own name changes nothing that was decided."""

        put = await self._bucket.put(
            key,
            exchange.body,
            effect_id=effect_id,
            content_type="application/json",
            sha256=hashlib.sha256(exchange.body).hexdigest(),
            permitted=permitted,
        )
        if isinstance(put, Settled):
            return Found(receipt=_receipt(effect_id, key, exchange.body))
        there = None
        if put.error_class == "exists":
            there = await self._bucket.find(key, wanted=self._fits)
        if there is None:
            raise LookupDown(put.evidence.detail)
        return _found(there, effect_id)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to the request itself."""

    effect_id: str
    background: bool

    def meaning(self, exchange: Exchange) -> Meaning:
        """Work in the background is asked for, whatever its state; a full queue has taken nothing."""
        if exchange.status == 429:  # noqa: PLR2004 - too many requests: refused before any work
            return Meaning.REFUSED_BEFORE_WORK
        meaning = meaning_of(exchange.status or 0)
        taken = self.background and _id_of(exchange.json()) is not None
        return Meaning.ACCEPTED if meaning is Meaning.PROOF and taken else meaning

    def proof(self, exchange: Exchange) -> Receipt | None:
        """An answer to a chat has choices; one in the background has been accepted, and proves nothing."""
        answer = exchange.json()
        if self.background or not isinstance(answer, dict) or not answer.get("choices"):
            return None
        return Receipt(external_id=_id_of(answer) or self.effect_id)

    def job_id(self, exchange: Exchange) -> str:
        """The API's id of the work."""
        return _id_of(exchange.json()) or self.effect_id

    def reason(self, exchange: Exchange) -> str:
        """The API's own reason."""
        answer = exchange.json()
        return first_text([place.within(answer) for place in _REASON])


def _id_of(answer: JsonValue) -> str | None:
    return id_in(answer.get("id")) if isinstance(answer, dict) else None


def _time_of(answer: JsonValue) -> datetime | None:
    if not isinstance(answer, dict):
        return None
    return time_in(answer.get("created_at", answer.get("created")))


def _found(kept: Kept, effect_id: str) -> Found | Differs | Unknowable:
    other = kept.not_of(effect_id)
    if other is not None:
        return other
    if kept.content is None:
        return Found(receipt=kept.receipt().model_copy(update={"truncated": True}))
    return Found(receipt=_receipt(effect_id, kept.key, kept.content))


def _receipt(effect_id: str, key: str, content: bytes) -> Receipt:
    """An answer as evidence that it was generated; the tokens stand in ``usage``."""
    try:
        answer: JsonValue = pydantic_core.from_json(content, allow_inf_nan=False)
    except ValueError:
        answer = None
    body, cut = small({"key": key, **{place.text: place.within(answer) for place in _KEPT}})
    return Receipt(
        external_id=_id_of(answer) or effect_id,
        happened_at=_time_of(answer),
        body=body,
        digest=hashlib.sha256(content).hexdigest(),
        truncated=cut,
    )
