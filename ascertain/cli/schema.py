"""``ascertain migrate``."""

from __future__ import annotations

from pathlib import Path

from ascertain.cli import output, place
from ascertain.ledger import migration
from ascertain.ledger.session import place as address


async def migrate(
    config: Path | None,
    *,
    check: bool,
    pre: bool,
    outbox: str | None = None,
    roles: bool = False,
    as_json: bool,
) -> None:
    """Migrate the ledger, or a service's outbox, or only look.

    Raises:
        WrongSchema: With ``check``: it must be migrated. Else: an applied file was edited.
        LedgerDown: Nobody answers there.
        InvalidSettings: No ledger is named, or its address or account is wrong.
    """
    which = migration.Schema.LEDGER if outbox is None else migration.Schema.SERVICE
    part = "ledger" if outbox is None else "outbox"
    url = place.find(config).ledger_url if outbox is None else outbox
    made: tuple[str, ...] = ()
    if check:
        await migration.check(url, which)
        applied: list[str] = []
    else:
        kinds = {migration.Kind.PRE} if pre else set(migration.Kind)
        applied = await migration.migrate(url, kinds, which)
        if roles:
            made = await migration.grant_roles(url, which)
    if as_json:
        output.document({part: address(url), "applied": list(applied), "roles": list(made)})
        return
    output.lines(f"applied {name}" for name in applied)
    output.lines(f"role {name} is there and has its grants" for name in made)
    output.line(f"The {part} at {address(url)} has the schema of this release.")
