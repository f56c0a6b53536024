"""A service's own transaction, whichever library holds it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from ascertain.errors import SetupError
from ascertain.ledger.statement import SERVICE, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED: Final = re.compile(r"\$(\d+)")


class Transaction(Protocol):
    """A connection of asyncpg, or SQLAlchemy's ``AsyncConnection`` or ``AsyncSession``, in a transaction."""

    @property
    def execute(self) -> Any:  # noqa: ANN401  # each of them has a signature of its own
        """Runs a statement."""
        ...


async def run(connection: Transaction, name: str, *values: str | None) -> Sequence[Sequence[Any]]:
    """Run one named statement as a part of the caller's transaction.

    Returns:
        Its rows, as sequences of columns.

    Raises:
        SetupError: There is no transaction.
    """
    connected: Any = connection
    if type(connection).__module__.partition(".")[0] == "sqlalchemy":
        from sqlalchemy import text  # noqa: PLC0415 - it is there: the connection is one of its own

        result = await connected.execute(text(named(name)), parameters(values))
        return list(result) if result.returns_rows else []
    if not connected.is_in_transaction():
        raise SetupError(
            "this connection is in no transaction, so nothing would tie this to the service's own writes: "
            "begin one around both"
        )
    return list(await connected.fetch(statement(name, SERVICE), *values))


def named(name: str) -> str:
    """A statement with ``:p1`` parameters instead of numbered ones."""
    return _NUMBERED.sub(r":p\1", statement(name, SERVICE))


def parameters(values: Sequence[str | None]) -> dict[str, str | None]:
    """Values for a statement as ``named`` gives it."""
    return {f"p{number}": value for number, value in enumerate(values, 1)}
