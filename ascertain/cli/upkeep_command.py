"""Commands that look after the whole ledger. Each imports what it needs when it runs."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated

import typer

from ascertain.cli import option


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (sweep, census, metrics, advise, restored, archive):
        app.command()(command)
    group = typer.Typer(help="The audit trail.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_audit)
    group.command()(verify)
    app.add_typer(group, name="audit")


def _audit() -> None:
    """What was decided, by whom and why; append-only and hash-chained."""


def sweep(
    *, within: option.Within = None, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Look now for effects whose workflow is gone, and have them ascertained. Begins nothing new.

    The schedule does the same by itself every `sweep_every`.
    """
    from ascertain.cli import upkeep

    asyncio.run(upkeep.sweep(within, config, as_json=as_json))


def census(
    context: typer.Context,
    *,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only this kind; may be given again. Else: all of the deployment."),
    ] = None,
    since: Annotated[
        timedelta | None,
        typer.Option(
            parser=option.length,
            metavar="TIME",
            help="Only what happened so long ago at most, such as 24h. Else: everything.",
        ),
    ] = None,
    last: Annotated[
        bool,
        typer.Option("--last", help="Take none: show what the newest of the schedule has found."),
    ] = False,
    within: option.Within = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Compare the outside's own list with the ledger. Changes nothing outside, and sends nothing.

    Finds duplicates, facts that the ledger does not know, and settled facts that vanished or were reversed,
    and gives the rate of duplicate effects with its upper 95 % confidence bound. The schedule takes one by
    itself every `census_every`. Exit code 13 if they disagree, 14 if nothing could be compared.
    """
    from ascertain.cli import census as command

    wish = command.Wish(tuple(kind or ()), since, within)
    if last:
        option.apart(context, ("since", "within"), "for with --last none is taken")
        raise typer.Exit(asyncio.run(command.last_census(wish.kinds, config, as_json=as_json)))
    raise typer.Exit(asyncio.run(command.census(wish, config, as_json=as_json)))


def restored(
    *,
    since: Annotated[
        datetime,
        typer.Option(
            parser=option.moment,
            metavar="TIME",
            help="The time of the backup: 2026-03-01T02:00:00Z, or so long ago: 90m.",
        ),
    ],
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=option.moment,
            metavar="TIME",
            help="Tasks that are begun before count too: where those that Temporal lost as well are "
            "submitted again until then. Else: in a minute, for clocks differ.",
        ),
    ] = None,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Say that the ledger was restored from a backup, before any worker starts.

    Whatever it may have forgotten begins in doubt from now on: it is asked for before anything is sent, and
    what cannot be asked for waits for a person. Tasks that are begun later are not touched.
    """
    from ascertain.cli import upkeep

    wish = upkeep.Restore(since, until, option.operator_name(operator), reason, request_id)
    asyncio.run(upkeep.restored(wish, config, as_json=as_json))


def archive(
    *,
    older_than: Annotated[
        timedelta,
        typer.Option(
            parser=option.length,
            metavar="TIME",
            help="Only what has been settled for at least so long: 90d.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what would be archived.")
    ] = False,
    batch: Annotated[
        int, typer.Option(min=1, max=10_000, help="Effects that are looked at in one commit.")
    ] = 1000,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Keep of long settled effects only what protects and proves: ids, fingerprints, receipts, trails.

    A task that is submitted again still gets its first result. Safe while workers work, to interrupt, and to
    run again.
    """
    from ascertain.cli import archive

    asyncio.run(archive.archive(older_than, batch, config, dry_run=dry_run, as_json=as_json))


def metrics(
    context: typer.Context,
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            callback=option.address,
            help="Serve them here until stopped; else they are printed once.",
        ),
    ] = None,
    every: Annotated[
        timedelta,
        typer.Option(parser=option.length, metavar="TIME", help="How often the ledger is read."),
    ] = timedelta(seconds=15),
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Show the metrics that stand in the ledger: open effects and their ages, gates, the last censuses.

    With `--listen` for Prometheus, in one process for the whole deployment; what workers count they serve
    themselves (`ascertain worker --metrics`). SIGTERM or Ctrl-C ends it.
    """
    from ascertain.cli import metrics as shown

    if listen is None:
        option.apart(context, ("every",), "for they are printed once: say --listen HOST:PORT")
        asyncio.run(shown.show(config, as_json=as_json))
    else:
        asyncio.run(shown.serve(listen, every, config, as_json=as_json))


def advise(
    *,
    samples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Look at so many effects at most.")
    ] = 20_000,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Propose lease, horizon and alert for each kind from what its audit trails measured. Changes nothing.

    Never less than what is declared: that nothing took longer so far does not prove that nothing will.
    """
    from ascertain.cli import advise as advised

    asyncio.run(advised.run(samples, config, as_json=as_json))


def verify(
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="Of this task only. Else: of all.")
    ] = None,
    *,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Check the hash chain of every audit trail. Exit code 12 if one is not what was written."""
    from ascertain.cli import upkeep

    raise typer.Exit(asyncio.run(upkeep.verify(task, config, as_json=as_json)))
