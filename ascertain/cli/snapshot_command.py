"""``ascertain snapshot``. Each command imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ascertain.cli import option

Archive = Annotated[Path, typer.Argument(metavar="FILE", help="The archive.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Keep all that recovery could change in one archive, and check or show one.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for command in (create, verify, show):
        group.command()(command)
    app.add_typer(group, name="snapshot")


def create(
    target: Archive,
    *,
    partition: Annotated[
        str | None, typer.Option(metavar="P", help="Only tasks of this partition.")
    ] = None,
    unresolved: Annotated[
        bool,
        typer.Option(
            "--unresolved", help="Only what can still change: open effects and running tasks."
        ),
    ] = False,
    force: option.Force = False,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Write tasks, ledger rows, audit trails, gates and workflow histories into one archive.

    Changes nothing. The archive stands under its name only once it is whole; it holds what tasks were asked
    for, so only its owner may read it. The histories in it can be replayed offline.
    """
    from ascertain.cli import snapshot

    target = option.unused(target, force=force)
    asyncio.run(snapshot.create(target, partition, config, unresolved=unresolved, as_json=as_json))


def verify(source: Archive, *, as_json: option.Json = False) -> None:
    """Check every digest, every audit trail's hash chain and every history of an archive.

    Needs no server. Exit code 8 if it is not what was written.
    """
    from ascertain.cli import snapshot

    snapshot.verify(source, as_json=as_json)


def show(source: Archive, *, as_json: option.Json = False) -> None:
    """Show what an archive holds: when it was taken, of what, and how its effects stood."""
    from ascertain.cli import snapshot

    snapshot.show(source, as_json=as_json)
