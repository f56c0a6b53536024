"""The ``sql`` adapter: a change of rows in a PostgreSQL database, and the record of it, in one transaction.

::

    [kinds."account.post"]
    adapter = "sql"

    [kinds."account.post".options]
    url = "secret:BANK_DB"

    [[kinds."account.post".options.statements]]
    sql = "update accounts set balance = balance + $2 where id = $1 returning balance"
    parameters = ["{input.account}", "{input.delta}"]
    rows = 1

The statements are the deployment's; a task gives values only. The record (``ascertain_effects``, see
``docs/how-to/sql-adapter.md``) has the effect's id as its primary key, so a change can be committed once,
whoever tries and whenever. Until COMMIT is sent nothing exists; after it, the record tells.

Source:
    PostgreSQL's documentation on COMMIT, unique indexes and statement_timeout.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import asyncpg
from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from ascertain.adapters import saying
from ascertain.adapters.declaration import read
from ascertain.adapters.place import time_in
from ascertain.adapters.reach import NotListed
from ascertain.adapters.reading import small
from ascertain.adapters.target import STATEMENTS, Target
from ascertain.adapters.template import ABOUT_EFFECT, Form, MissingValueError, scope_of
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Absent, Differs, Found
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import StrictValue, Value
from ascertain.errors import InvalidTask, LookupDown, MissingSecret
from ascertain.keys import canonical
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.transaction import Transaction

    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Permit, Secrets

_MAX_RETURNED: Final = 20
_AROUND: Final = timedelta(milliseconds=500)
_FAULTS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
# What the values, and not the deployment or the moment, are to blame for.
_REFUSALS: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.RaiseError,
)
_CHANGES: Final = re.compile(r"\s*(insert|update|delete|merge|with|select|call)\b", re.IGNORECASE)


def _one_change(text: str) -> str:
    if not _CHANGES.match(text):
        raise ValueError("begins with insert, update, delete, merge, with, select or call")
    return text


def _about_effect(form: Form) -> Form:
    unknown = {r.root for t in form.templates() for r in t.references} - ABOUT_EFFECT
    if unknown:
        raise ValueError(f"{{{min(unknown)}}} is not known before it is done")
    return form


class StatementForm(StrictValue):
    """One statement.

    Attributes:
        parameters: ``$1``, ``$2`` ...; each takes its type from the statement.
        rows: How many rows it must touch or return; otherwise nothing is changed and the effect is refused.
    """

    sql: Annotated[str, AfterValidator(_one_change)]
    parameters: tuple[Annotated[Form, AfterValidator(_about_effect)], ...] = ()
    rows: Annotated[int, Field(ge=0)] | None = None


class SqlOptions(StrictValue):
    """What a deployment says.

    Attributes:
        url: Of the database, with the account and its password: ``secret:NAME``.
        timeout: Of the whole attempt, and of each step on the server.
    """

    url: Annotated[str, StringConstraints(pattern=r"^secret:[A-Za-z0-9_]+$")]
    statements: Annotated[tuple[StatementForm, ...], Field(min_length=1, max_length=20)]
    connections: Annotated[int, Field(ge=1, le=100)] = 10
    timeout: timedelta = timedelta(seconds=4)


class FrozenStatement(Value):
    """One statement with its values."""

    sql: str
    parameters: tuple[JsonValue, ...]
    rows: int | None


class FrozenChange(Value):
    """One change, ready to be made."""

    version: Literal[1] = 1
    statements: tuple[FrozenStatement, ...]


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> SqlAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    return SqlAdapter(read(SqlOptions, kind, options), secrets)


class _OtherRows(Exception):
    """A statement touched another number of rows than it must."""


class SqlAdapter:
    """Makes one change once."""

    def __init__(self, options: SqlOptions, secrets: Secrets) -> None:
        self._options = options
        self._secrets = secrets
        self._target = Target(options.connections, options.timeout)

    @property
    def semantics(self) -> Semantics:
        """The record is visible as soon as the change is."""
        return Semantics(
            lookup=LookupBy.KEY,
            compares_bodies=True,
            in_flight_max=self._options.timeout + timedelta(seconds=1),
            max_duration=self._options.timeout + _AROUND,
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the statements and their values.

        Raises:
            InvalidTask: A value is missing, or they are too large.
        """
        scope = scope_of(effect, effect.input)
        try:
            statements = tuple(
                FrozenStatement(
                    sql=form.sql,
                    parameters=tuple(_value(p, scope) for p in form.parameters),
                    rows=form.rows,
                )
                for form in self._options.statements
            )
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        frozen = canonical(FrozenChange(statements=statements).model_dump(mode="json"))
        if len(frozen) > FROZEN_MAX_BYTES:
            raise InvalidTask(
                f"the change is {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept"
            )
        return frozen

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Make the change and the record in one transaction.

        Raises:
            PermitLost: Nothing was committed.
        """
        change = _Change(call, permit)
        try:
            async with asyncio.timeout(self._options.timeout.total_seconds()):
                pool = await self._target.sessions(self._url())
                async with pool.acquire() as session:
                    return await _in_time(change, session)
        except MissingSecret as error:
            return saying.unsent(error.code, str(error))
        except NotListed as error:
            return saying.unsent("not_listed", str(error.strerror))
        except _OtherRows as wrong:
            return saying.refused("rows", str(wrong))
        except (*_FAULTS, ValueError) as fault:  # TimeoutError is an OSError
            return _broken(fault, committing=change.committing)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Read the record.

        Raises:
            LookupDown: The database cannot be asked now, or has no table of records.
        """
        effect_id, wanted = call.effect.effect_id, _digest(call.frozen)
        try:
            async with asyncio.timeout(within.total_seconds()):
                pool = await self._target.sessions(self._url())
                found = await pool.fetchrow(STATEMENTS["find"], effect_id)
        except MissingSecret as error:
            raise LookupDown(str(error)) from error
        except (*_FAULTS, ValueError) as fault:
            raise LookupDown(f"the record cannot be read ({type(fault).__name__})") from fault
        if found is None:
            return Absent(detail="the database has no record of it")
        if found["request_sha256"] != wanted:
            there = str(found["request_sha256"])
            return Differs(
                external_id=effect_id, expected={"sha256": wanted}, found={"sha256": there}
            )
        at = time_in(found["applied_at"])
        return Found(receipt=_receipt(effect_id, wanted, found["result"], at))

    async def aclose(self) -> None:
        """Close every session."""
        await self._target.aclose()

    def _url(self) -> str:
        return self._secrets.reveal(self._options.url.removeprefix("secret:"))


class _Change:
    """One change on its way.

    Attributes:
        committing: Whether COMMIT may have been sent; before it nothing exists.
    """

    def __init__(self, call: Call, permit: Permit) -> None:
        self._call = call
        self._permit = permit
        self.committing = False

    async def run(self, session: PoolConnectionProxy[asyncpg.Record]) -> Outcome:
        """Do all of it, in one transaction that ends here, one way or the other."""
        effect_id, digest = self._call.effect.effect_id, _digest(self._call.frozen)
        transaction = session.transaction()
        await transaction.start()
        try:
            recorded = await session.fetchval(STATEMENTS["record"], effect_id, digest)
            if recorded is None:
                await transaction.rollback()
                why = "the database has a record of it already: look it up and compare"
                return saying.doubted("exists", why)
            result = await self._statements(session)
            await session.execute(STATEMENTS["keep_result"], effect_id, result)
            self._permit.check()
        except Exception:
            # Ended with its session should even this fail: nothing was committed.
            await _rolled_back(transaction, session)
            raise
        self.committing = True
        await transaction.commit()
        receipt = _receipt(effect_id, digest, result, None)
        return saying.settled(receipt, "the change and its record were committed together")

    async def _statements(self, session: PoolConnectionProxy[asyncpg.Record]) -> JsonObject:
        touched: list[JsonValue] = []
        returned: list[JsonValue] = []
        for number, one in enumerate(
            FrozenChange.model_validate_json(self._call.frozen).statements, start=1
        ):
            prepared = await session.prepare(one.sql)
            rows = await prepared.fetch(*one.parameters)
            count = _count(prepared.get_statusmsg(), len(rows))
            if one.rows is not None and count != one.rows:
                raise _OtherRows(
                    f"statement {number} touched {count} rows and must touch {one.rows}"
                )
            touched.append(count)
            returned += [dict(row) for row in rows[: _MAX_RETURNED - len(returned)]]
        return {"rows": touched, "returned": returned} if returned else {"rows": touched}


async def _in_time(change: _Change, session: PoolConnectionProxy[asyncpg.Record]) -> Outcome:
    """Make the change; a session whose time is over is ended, for a silent one would be waited for."""
    try:
        return await change.run(session)
    except asyncio.CancelledError:
        session.terminate()
        raise


async def _rolled_back(transaction: Transaction, session: PoolConnectionProxy[Any]) -> None:
    try:
        await transaction.rollback()
    except _FAULTS:
        session.terminate()


def _broken(fault: Exception, *, committing: bool) -> Outcome:
    code = getattr(fault, "sqlstate", None)
    word = f"sql_{code}" if code else type(fault).__name__
    if isinstance(fault, TimeoutError):
        word = "silence"
    # An error of PostgreSQL's own at COMMIT, such as a deferred constraint, says that it was rolled back.
    if committing and not isinstance(fault, (*_REFUSALS, asyncpg.TransactionRollbackError)):
        return saying.lost(word, f"COMMIT was sent and not answered ({word})")
    if isinstance(fault, _REFUSALS):
        return saying.refused(word, f"the database refused the change: {type(fault).__name__}")
    return saying.unsent(word, f"nothing was committed ({word})")


def _receipt(
    effect_id: str, digest: str, result: JsonObject | None, at: datetime | None
) -> Receipt:
    body, cut = small(result or {})
    return Receipt(external_id=effect_id, happened_at=at, body=body, digest=digest, truncated=cut)


def _value(form: Form, scope: Mapping[str, JsonValue]) -> JsonValue:
    return None if form.left_out(scope) else form.render(scope)


def _count(status: str | None, returned: int) -> int:
    """How many rows a statement touched, from its own words: ``UPDATE 3``, ``INSERT 0 1``."""
    last = (status or "").rsplit(" ", 1)[-1]
    return int(last) if last.isdigit() else returned


def _digest(frozen: bytes) -> str:
    return hashlib.sha256(frozen).hexdigest()
