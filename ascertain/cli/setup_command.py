"""Commands about the deployment. Each imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ascertain.cli import option


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (doctor, migrate, schema, version):
        app.command()(command)


def doctor(*, config: option.Config = None, as_json: option.Json = False) -> None:
    """Check everything that a deployment needs, and say what to do about what is missing."""
    from ascertain.cli import checkup

    raise typer.Exit(asyncio.run(checkup.doctor(config, as_json=as_json)))


def migrate(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 7 if it must be migrated.")
    ] = False,
    pre: Annotated[
        bool, typer.Option("--pre", help="Only what the previous release still works with.")
    ] = False,
    outbox: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Not the ledger: the outbox and inbox in this service's database."
        ),
    ] = None,
    roles: Annotated[
        bool, typer.Option("--roles", help="Then make the roles of least privilege.")
    ] = False,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Bring the ledger's schema up to this release. Two at once are safe."""
    from ascertain.cli import schema

    asyncio.run(
        schema.migrate(config, check=check, pre=pre, outbox=outbox, roles=roles, as_json=as_json)
    )


def schema(*, as_json: option.Json = False) -> None:
    """Print how any language starts a task: names, search attributes, and JSON schemas. Always JSON."""
    del as_json  # it is never anything else; accepted, so that every command takes it
    from ascertain.cli import contract

    contract.show()


def version(*, as_json: option.Json = False) -> None:
    """Print the versions of Ascertain and of what it stands on."""
    from ascertain.cli import version as command

    command.show(as_json=as_json)
