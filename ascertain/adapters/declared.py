"""An adapter whose outside is described as data."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import httpx

from ascertain.adapters import judgement
from ascertain.adapters.frozen import FrozenRequest, HeaderPiece
from ascertain.adapters.question import Question
from ascertain.adapters.reading import DeclaredReading
from ascertain.adapters.sending import Sending
from ascertain.adapters.template import MissingValueError, scope_of
from ascertain.adapters.wire import Wire
from ascertain.contracts.effect import Evidence
from ascertain.contracts.finding import Absent, Unknowable
from ascertain.contracts.outcome import NotDone
from ascertain.contracts.semantics import Semantics
from ascertain.errors import InvalidTask, LookupDown, MissingSecret, Unlisted
from ascertain.keys import canonical

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from pydantic import JsonValue

    from ascertain.adapters.declaration import Declaration
    from ascertain.adapters.question_form import QuestionForm
    from ascertain.adapters.request_form import RequestForm
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Listed, Permit, Secrets

# Our clock and the outside's may differ: a listing is asked from this long before the first send.
_CLOCK_MARGIN_SECONDS: Final = 3600
# Time for everything around the one request.
_AROUND: Final = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class _Found:
    """Everything about one call that references can lead to."""

    frozen: FrozenRequest
    scope: Mapping[str, JsonValue]


class DeclaredAdapter:
    """Does one kind of effect by HTTP, as a declaration says.

    Args:
        declaration: The requests and how their answers are read.
        secrets: Where ``secret:NAME`` is resolved, at the moment of sending and not before.
        semantics: What the outside promises; default: no key, the declared lookup and its lag.
        read_input: Checks an effect's input and gives it the form that the requests refer to; raises
            InvalidTask.
    """

    def __init__(
        self,
        declaration: Declaration,
        secrets: Secrets,
        *,
        semantics: Semantics | None = None,
        read_input: Callable[[JsonObject], JsonObject] = dict,
    ) -> None:
        self._declaration = declaration
        self._secrets = secrets
        self._semantics = semantics or semantics_of(declaration)
        self._read_input = read_input
        self._wire = Wire(declaration.wire.settings())

    @property
    def semantics(self) -> Semantics:
        """What this outside promises, unless the deployment says otherwise."""
        return self._semantics

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the request: method, address, headers without secrets, and body.

        Raises:
            InvalidTask: The input is wrong for this kind, or the request is too large.
        """
        form, scope = self._declaration.request, self._scope(effect)
        try:
            body, content_type = _body(form, scope)
            headers = self._headers(form, scope, content_type)
            if form.idempotency_header is not None:
                headers[form.idempotency_header.lower()] = (HeaderPiece(text=effect.effect_id),)
            url = self._url(form, scope, {})
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        return FrozenRequest(
            method=form.method,
            url=url,
            headers=tuple(headers.items()),
            body=body,
            prepared_at=int(time.time()) if self._declaration.needs_time() else None,
        ).to_bytes()

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Send the frozen request once and judge its answer.

        Raises:
            PermitLost: Nothing was sent.
        """
        try:
            found = self._find(call)
            request = found.frozen.with_secrets(self._secrets)
            secrets = found.frozen.revealed(self._secrets)
        except (InvalidTask, MissingSecret) as error:
            unsent = Evidence(source="phase", rule="never_left", detail=str(error))
            return NotDone(error_class=error.code, evidence=unsent)
        exchange = await self._wire.exchange(
            request, within=self._declaration.timeout, sending=Sending(permit.check)
        )
        return judgement.judge(
            exchange,
            DeclaredReading(self._declaration, found.scope, secrets),
            self._declaration.throttle,
            who=f"{call.effect.effect_id}:{call.attempt}",
            now=datetime.now(UTC),
        )

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Ask by the outside's own id while it is known, and then as the lookup is declared.

        Raises:
            LookupDown: The outside cannot be asked now, or its listing was not read to the end.
        """
        declared, deadline = self._declaration, _deadline(within)
        if declared.lookup is None:
            return Unknowable(detail="the deployment declares no lookup for this kind")
        try:
            found = self._find(call)
            if declared.job is not None and call.job_id is not None:
                statuses = (404,) if declared.job.absent is None else declared.job.absent
                finding = await self._ask(declared.job, found, statuses, deadline)
                if not isinstance(finding, Absent):
                    return finding
            return await self._ask(
                declared.lookup, found, declared.lookup.absent_statuses, deadline
            )
        except (InvalidTask, MissingValueError) as error:
            return Unknowable(detail=f"cannot be asked for: {error}")
        except MissingSecret as error:
            raise LookupDown(str(error)) from error

    async def listing(
        self, *, since: datetime | None, within: timedelta
    ) -> AsyncIterator[list[Listed]]:
        """See ``ports.Lister``."""
        form, deadline = self._declaration.census, _deadline(within)
        if form is None:
            raise Unlisted("the deployment declares no census for this kind")
        unix = 0 if since is None else int(since.timestamp()) - _CLOCK_MARGIN_SECONDS
        scope: dict[str, JsonValue] = {
            "since_unix": unix,
            "since": datetime.fromtimestamp(unix, UTC).isoformat(),
        }
        try:
            question = self._question(form, scope, (), deadline)
        except MissingSecret as error:
            raise LookupDown(str(error)) from error
        async for page in question.everything():
            yield page

    async def aclose(self) -> None:
        """Close every connection."""
        await self._wire.aclose()

    async def _ask(
        self, form: QuestionForm, found: _Found, absent: tuple[int, ...], deadline: float
    ) -> Finding:
        return await self._question(form, found.scope, absent, deadline).ask()

    def _question(
        self,
        form: QuestionForm,
        scope: Mapping[str, JsonValue],
        absent: tuple[int, ...],
        deadline: float,
    ) -> Question:
        body, content_type = _body(form, scope)
        headers = tuple(self._headers(form, scope, content_type).items())

        def request(params: Mapping[str, str]) -> FrozenRequest:
            url = self._url(form, scope, params)
            return FrozenRequest(method=form.method, url=url, headers=headers, body=body)

        secrets = request({}).revealed(self._secrets)
        return Question(
            self._wire,
            form,
            scope,
            lambda params: request(params).with_secrets(self._secrets),
            absent,
            deadline,
            secrets,
        )

    def _scope(self, effect: Effect) -> dict[str, JsonValue]:
        return scope_of(effect, self._read_input(effect.input))

    def _find(self, call: Call) -> _Found:
        frozen = FrozenRequest.model_validate_json(call.frozen)
        scope = self._scope(call.effect)
        scope["job_id"] = call.job_id
        scope["body_sha256"] = sha256((frozen.body or "").encode()).hexdigest()
        if frozen.prepared_at is not None:
            since = frozen.prepared_at - _CLOCK_MARGIN_SECONDS
            scope["since_unix"] = since
            scope["since"] = datetime.fromtimestamp(since, UTC).isoformat()
        return _Found(frozen, scope)

    def _headers(
        self, form: RequestForm, scope: Mapping[str, JsonValue], content_type: str | None
    ) -> dict[str, tuple[HeaderPiece, ...]]:
        headers: dict[str, tuple[HeaderPiece, ...]] = {}
        if content_type is not None:
            headers["content-type"] = (HeaderPiece(text=content_type),)
        for name, value in (*self._declaration.headers.items(), *form.headers.items()):
            headers[name.lower()] = value.render(scope)
        return headers

    def _url(
        self, form: RequestForm, scope: Mapping[str, JsonValue], params: Mapping[str, str]
    ) -> str:
        address = self._declaration.address(form, scope)
        declared = {n: t.text(scope) for n, t in form.params.items() if not t.left_out(scope)}
        query = urlencode({**declared, **params})
        url = f"{address}{'&' if '?' in address else '?'}{query}" if query else address
        try:
            return str(httpx.URL(url))
        except httpx.InvalidURL as error:
            raise MissingValueError(f"no address can be made of it: {error}") from error


def semantics_of(declaration: Declaration) -> Semantics:
    """What a declaration says of its outside; a key is honoured only where the deployment says so."""
    lookup = declaration.lookup
    return Semantics(
        lookup=None if lookup is None else lookup.by,
        lag=timedelta(0) if lookup is None else lookup.lag,
        max_duration=declaration.timeout + _AROUND,
    )


def _body(form: RequestForm, scope: Mapping[str, JsonValue]) -> tuple[str | None, str | None]:
    if form.body_json is not None:
        return canonical(form.body_json.render(scope)).decode(), "application/json"
    if form.form is not None:
        fields = {n: t.text(scope) for n, t in form.form.items() if not t.left_out(scope)}
        return urlencode(fields), "application/x-www-form-urlencoded"
    return None, None


def _deadline(within: timedelta) -> float:
    return asyncio.get_running_loop().time() + within.total_seconds()
