"""Commands about tasks. Each imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from ascertain.cli import option

# The names of ``contracts.command.Action``, which would cost a second to import; a test compares them.
Action = Literal["take", "confirm", "deny", "retry", "amend", "abandon", "undo", "release"]
Override = Annotated[
    bool,
    typer.Option("--override", help="Insist although the outside cannot be asked or contradicts."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    looking = (submit, list_, show, explain, report, deliveries, result, wait)
    for command in (*looking, takeover, reconcile, cancel):
        app.command(name=command.__name__.rstrip("_"))(command)


def submit(  # noqa: PLR0913 - each is one option of the command
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")],
    *,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One task a line; told by itself where it can be.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Lines at a time.")] = 32,
    patience: Annotated[
        timedelta,
        typer.Option(
            parser=option.length,
            metavar="TIME",
            show_default="60s",
            help="How long a line is tried again while the server does not answer.",
        ),
    ] = timedelta(seconds=60),
    message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The message that asked for the one task.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and show it.")] = False,
    within: option.Within = None,
    bulk: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM", help="Carry one small task a line, many at a time, in this stream."
        ),
    ] = None,
    chunk: Annotated[
        int, typer.Option(min=1, max=500, help="Of a new stream: tasks that are claimed together.")
    ] = 100,
    rate: Annotated[
        float | None, typer.Option(min=0.01, help="Of a new stream: most tasks begun in a second.")
    ] = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Start the task in FILE, or one a line.

    Safe to run again and again: a task that was started before is recognised. With --json, a stream gives
    one JSON document a line and its summary last.
    """
    from ascertain.cli import bulk as streams, submit as command
    from ascertain.cli.submission import Wish

    if bulk is None:
        option.apart(context, ("chunk", "rate"), "which are a stream's: say --bulk STREAM")
    else:
        lines = ("jsonl", "concurrency", "patience", "message_id", "wait", "within")
        option.apart(context, lines, "which --bulk does not take")
    if bulk is not None:
        campaign = streams.Campaign(bulk, rate, chunk)
        raise typer.Exit(asyncio.run(streams.bulk(source, campaign, config, as_json=as_json)))
    wish = Wish(concurrency, patience, message_id, wait or within is not None, within)
    code = asyncio.run(command.submit(source, wish, config, stream=jsonl, as_json=as_json))
    raise typer.Exit(code)


def list_(  # noqa: PLR0913 - each is one option of the command
    *,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="RUNNING, HELD, WAITING, a state of an effect such as UNKNOWN, or how it ended: DONE ...",
        ),
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Of this partition only.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Of this kind of task only; not the kind of an effect.")
    ] = None,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="What waits for a person: --state QUARANTINED.")
    ] = False,
    flat: Annotated[
        bool, typer.Option("--flat", help="With --quarantined: one line a task, not one a cause.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="At most so many tasks, or causes.")
    ] = 100,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """List tasks: those that run first, then the newest. With --quarantined: what waits, by its cause.

    A task that was just started or just changed its state may be missing for about a second.
    """
    from ascertain.cli import listing

    if quarantined and state not in {None, "QUARANTINED"}:
        raise typer.BadParameter("--quarantined and another --state exclude each other")
    wanted = "QUARANTINED" if quarantined else state
    asked = listing.Filter(wanted, partition, kind, limit)
    if quarantined and not flat:
        from ascertain.cli import quarantine

        asyncio.run(quarantine.list_causes(asked, config, as_json=as_json))
        return
    asyncio.run(listing.list_tasks(asked, config, as_json=as_json))


def show(task: option.Case, *, config: option.Config = None, as_json: option.Json = False) -> None:
    """Show where a task stands and every effect and attempt of it.

    Works with whichever of the task's workflow and the ledger can be reached, says which cannot, and then
    ends with 6, or with 7 if it is the deployment that is wrong, for this is not the whole case. So do
    explain and report.
    """
    from ascertain.cli import inspection

    raise typer.Exit(asyncio.run(inspection.show(task, config, as_json=as_json)))


def explain(
    task: option.Case, *, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Tell the whole case of a task in plain words, and what is safe next."""
    from ascertain.cli import inspection

    raise typer.Exit(asyncio.run(inspection.explain(task, config, as_json=as_json)))


def report(
    task: option.Case,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there instead of printing it.")
    ] = None,
    force: option.Force = False,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Render the case file of a task as HTML: timeline, evidence, decisions. One file, nothing beside it."""
    from ascertain.cli import inspection

    target = None if out is None else option.unused(out, force=force)
    raise typer.Exit(asyncio.run(inspection.report(task, config, target, as_json=as_json)))


def deliveries(
    task: option.Task, *, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Show how often a task was asked for again, by which message, and what became of that."""
    from ascertain.cli import delivery

    asyncio.run(delivery.show(task, config, as_json=as_json))


def result(
    task: option.Task,
    *,
    within: option.Within = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Wait for what becomes of a task. Exit code 0 only if it is DONE."""
    from ascertain.cli import steering

    raise typer.Exit(asyncio.run(steering.result(task, within, config, as_json=as_json)))


def wait(
    task: option.Task,
    *,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="As `list --state` takes it.")
    ] = None,
    within: option.Within = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Wait until a task is in a state. Without --state: until it is over, or a person may decide about it.

    What it waits for meanwhile that somebody can end (a closed gate, a person, a worker) is said on standard
    error, and the wait goes on. Exit code 8 if it is over and never came there.
    """
    from ascertain.cli import steering

    raise typer.Exit(asyncio.run(steering.wait(task, state, within, config, as_json=as_json)))


def takeover(  # noqa: PLR0913 - each is one option of the command
    task: option.Task,
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="What to do; see below.")],
    *,
    reason: Annotated[str, typer.Option(help="Why; kept in the audit trail for ever.")],
    operator: option.Operator = None,
    version: Annotated[
        int | None,
        typer.Option(
            min=1, help="The version of the effect that you looked at; else it is shown first."
        ),
    ] = None,
    effect: Annotated[
        str | None, typer.Option(metavar="ID", help="The effect that you looked at.")
    ] = None,
    external_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="For confirm: the outside's own id of the fact."),
    ] = None,
    new_input: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="JSON",
            help="For amend: the whole new input, or @FILE that holds it.",
        ),
    ] = None,
    evidence: Annotated[
        str | None, typer.Option(metavar="JSON", help="What you saw, as a small JSON object.")
    ] = None,
    override: Override = False,
    request_id: option.RequestId = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back.")] = False,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Decide about the open effect of a task, as a named person.

    take: it is yours now. confirm: it exists. deny: it does not exist. retry: ask the outside, then go on.
    amend: it does not exist, and is done with a new input instead. abandon: give it up. undo: take back a
    settled step. release: hand it back. `ascertain explain TASK` says which of them are safe.
    """
    from ascertain.cli import person

    order = person.Order(
        action=action,
        operator=option.operator_name(operator),
        reason=reason,
        version=version,
        effect_id=effect,
        external_id=external_id,
        new_input=new_input,
        evidence=evidence,
        override=override,
        request_id=request_id,
    )
    asyncio.run(person.takeover(task, order, config, sure=yes, as_json=as_json))


def reconcile(
    task: option.Task, *, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Ask the outside about a task now instead of at the next turn. Always safe."""
    from ascertain.cli import steering

    asyncio.run(steering.reconcile(task, config, as_json=as_json))


def cancel(
    task: option.Task, *, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Cancel a task: no new step starts, and what is open outside is ascertained first."""
    from ascertain.cli import steering

    asyncio.run(steering.cancel(task, config, as_json=as_json))
