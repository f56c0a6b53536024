"""An adapter whose outside is described as data."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ascertain.adapters import batch as batches, judgement
from ascertain.adapters.frozen import FrozenRequest
from ascertain.adapters.question import Question
from ascertain.adapters.reading import DeclaredReading
from ascertain.adapters.rendering import Rendering
from ascertain.adapters.sending import Sending
from ascertain.adapters.template import MissingValueError, scope_of
from ascertain.adapters.wire import Wire
from ascertain.contracts.effect import Evidence
from ascertain.contracts.finding import Absent, Unknowable
from ascertain.contracts.outcome import NotDone
from ascertain.contracts.semantics import Semantics
from ascertain.errors import InvalidTask, LookupDown, MissingSecret, Unlisted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from pydantic import JsonValue

    from ascertain.adapters.declaration import Declaration
    from ascertain.adapters.question_form import QuestionForm
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
        self._rendering = Rendering(declaration)
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
        try:
            request = self._rendering.write(effect.effect_id, self._scope(effect))
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        return request.to_bytes()

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
            return _unsent(error)
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

    @property
    def batch_max(self) -> int:
        """The most effects of one request; 1 if the outside takes no batches."""
        form = self._declaration.batch
        return 1 if form is None else form.most

    async def perform_many(
        self, calls: Sequence[Call], permits: Sequence[Permit]
    ) -> Sequence[Outcome]:
        """Send what was frozen for each in one request, and judge each by its own item of the answer.

        Raises:
            PermitLost: Nothing was sent for any of them.
        """
        declared, form = self._declaration, self._declaration.batch
        if form is None:
            raise TypeError("the deployment declares no batch for this kind")
        try:
            found = {call.effect.effect_id: self._find(call) for call in calls}
            together = self._rendering.batch(form, [each.frozen for each in found.values()])
            request = together.with_secrets(self._secrets)
            secrets = together.revealed(self._secrets)
        except (InvalidTask, MissingSecret) as error:
            return [_unsent(error)] * len(calls)

        def check_all() -> None:
            for permit in permits:
                permit.check()

        exchange = await self._wire.exchange(
            request, within=declared.timeout, sending=Sending(check_all)
        )
        return batches.judge_many(
            exchange,
            form,
            list(found),
            lambda effect_id: DeclaredReading(declared, found[effect_id].scope, secrets),
            declared.throttle,
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
        def request(params: Mapping[str, str]) -> FrozenRequest:
            return self._rendering.question(form, scope, params)

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
            first = call.first_sent_at
            sent = frozen.prepared_at if first is None else int(first.timestamp())
            since = max(min(sent, frozen.prepared_at) - _CLOCK_MARGIN_SECONDS, 0)
            scope["since_unix"] = since
            scope["since"] = datetime.fromtimestamp(since, UTC).isoformat()
        return _Found(frozen, scope)


def semantics_of(declaration: Declaration) -> Semantics:
    """What a declaration says of its outside; a key is honoured only where the deployment says so."""
    lookup = declaration.lookup
    return Semantics(
        lookup=None if lookup is None else lookup.by,
        lag=timedelta(0) if lookup is None else lookup.lag,
        max_duration=declaration.timeout + _AROUND,
    )


def _unsent(error: InvalidTask | MissingSecret) -> NotDone:
    unsent = Evidence(source="phase", rule="never_left", detail=str(error))
    return NotDone(error_class=error.code, evidence=unsent)


def _deadline(within: timedelta) -> float:
    return asyncio.get_running_loop().time() + within.total_seconds()
