"""Writes the reference pages that are made from the code: python -m tests.docs.reference."""

from __future__ import annotations

import inspect
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from ascertain import errors, machine, metric, settings
from ascertain.cli.listing import STATES
from ascertain.contracts import breaker, command, names, semantics, status, task
from ascertain.contracts.effect import TERMINAL, State
from ascertain.errors import AscertainError

DOCS = Path(__file__).parents[2] / "docs" / "reference"

_CONTRACTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The argument of the workflow type `Task`, whose workflow id is the `task_id`.", task.Task),
    ("The result of that workflow.", task.TaskResult),
    ("The argument of the signal and update `takeover`.", command.Command),
    (
        "The answer of that update, or the detail of its failure `CommandRefused`.",
        command.CommandAnswer,
    ),
    ("The answer of the query `status`.", status.TaskStatus),
    ("The answer of the query `timeline`.", status.Timeline),
)

_SETTINGS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", settings.Settings),
    ("`[ledger]`", settings.LedgerSettings),
    ("`[outside]`", settings.OutsideSettings),
    ("`[worker]`", settings.WorkerSettings),
    ("`[[breakers]]`: when gates close by themselves", breaker.Breaker),
    ('`[kinds."NAME"]`', settings.KindSettings),
    ('`[kinds."NAME".semantics]`: what the outside promises', semantics.Semantics),
    ('`[kinds."NAME".policy]`: what this deployment chooses', semantics.Policy),
    ('`[kinds."NAME".policy.four_eyes]`', semantics.FourEyes),
)

_MEANING = {
    State.IN_FLIGHT: "a claim is open: the call may be leaving now",
    State.ACCEPTED: "the outside took it and works on it; never sent again, only asked for",
    State.UNKNOWN: "may or may not exist; only asking is allowed",
    State.CLEAR: "proven not to exist; may be claimed again within the budget",
    State.SETTLED: "exists; the receipt is stored",
    State.REFUSED: "the outside said no for good; nothing happened",
    State.QUARANTINED: "automation has stopped doing; a person decides, late evidence still settles",
    State.TAKEN_OVER: "a named person owns it",
    State.ABANDONED: "a person gave it up, with a reason",
    State.SUPERSEDED: "a person replaced its input; the new effect is linked",
}


def pages() -> dict[str, str]:
    """Every generated page by its file's name."""
    return {
        "contracts.md": contracts(),
        "errors.md": error_tree(),
        "metrics.md": metrics(),
        "search-attributes.md": search_attributes(),
        "settings.md": deployment_file(),
        "states.md": states(),
    }


def states() -> str:
    """The machine as a diagram and as a table."""
    arrows = sorted(
        f"    {start or '[*]'} --> {end}: {' / '.join(moves)}"
        for (start, end), moves in _moves().items()
    )
    ends = [f"    {state} --> [*]" for state in State if state in TERMINAL]
    diagram = "\n".join(["stateDiagram-v2", *arrows, *ends])
    rows = [
        f"| `{move}` | {machine.ACTOR[move]} | {_steps(machine.TABLE[move])} |"
        for move in machine.Move
    ]
    meanings = [
        f"| `{state}` | {_MEANING[state]} | {'yes' if state in TERMINAL else ''} |"
        for state in State
    ]
    return _page(
        "The state machine of an effect",
        "Drawn from the table in `ascertain/machine.py`, with which the database's transition "
        "trigger and the "
        "explorer are compared too. `[*]` on the left is an effect that was never claimed.",
        f"```mermaid\n{diagram}\n```",
        "## States\n\n| state | meaning | final |\n|---|---|---|\n" + "\n".join(meanings),
        "## Moves\n\n| move | by | from → to |\n|---|---|---|\n" + "\n".join(rows),
    )


def _moves() -> dict[tuple[State | None, State], list[str]]:
    found: dict[tuple[State | None, State], list[str]] = {}
    for move, steps in machine.TABLE.items():
        for start, end in steps.items():
            found.setdefault((start, end), []).append(move.value)
    return found


def _steps(steps: Any) -> str:
    return ", ".join(f"{start or 'none'} → {end}" for start, end in steps.items())


def deployment_file() -> str:
    """Every key of the deployment file."""
    parts = [f"## {title}\n\n{_fields(model)}" for title, model in _SETTINGS]
    environment = (
        f"`{settings.FILE_VARIABLE}` names the file, else `./{settings.DEFAULT_FILE}` is read if "
        f"it is there; "
        f"`{settings.LEDGER_VARIABLE}` replaces the ledger's address. "
        "Instead of an address with a password (`ASCERTAIN_LEDGER_URL`, `ASCERTAIN_OUTBOX_URL`, "
        "`ASCERTAIN_RABBITMQ_URL`), the same name with `_FILE` names a file that holds it. "
        "Where Temporal is stands in Temporal's own "
        "variables or profile file (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_PROFILE`, "
        "TLS, keys), where "
        "traces go in OpenTelemetry's (`OTEL_EXPORTER_OTLP_ENDPOINT` ...)."
    )
    return _page(
        "The deployment file",
        "TOML. Lengths of time are seconds or ISO 8601 (`PT5S`). A misspelt key is an error. "
        "`options` are the "
        "adapter's own; a value `secret:NAME` is read by workers from `ASCERTAIN_SECRET_NAME` or "
        "from the file "
        "`NAME` in the folder `$ASCERTAIN_SECRETS`.",
        environment,
        *parts,
    )


def metrics() -> str:
    """Every metric under the name that Prometheus sees."""
    parts = [
        f"## From `{source}`\n\n| name | sort | labels | meaning |\n|---|---|---|---|\n"
        + "\n".join(
            f"| `{each.shown}` | {each.sort} | {', '.join(each.labels)} | {each.meaning} |"
            for each in metric.METRICS
            if each.source is source
        )
        for source in metric.Source
    ]
    return _page(
        "Metrics",
        "Of OpenTelemetry, under the names that Prometheus sees. A worker shows what it does itself "
        "(`ascertain worker --metrics HOST:PORT`), and so do a relay and a consumer; one process for the "
        "whole deployment shows what stands in the ledger (`ascertain metrics --listen HOST:PORT`). All "
        "serve `/live` and `/ready` beside `/metrics`. With `OTEL_EXPORTER_OTLP_ENDPOINT` they are sent "
        "there too, unless `OTEL_METRICS_EXPORTER` is `none`. What the alerts on them mean: "
        "[observe](../how-to/observe.md).",
        f"Labels stay few: each process names the first {metric.MOST_NAMES} kinds and partitions that "
        f"it meets, and all later ones together `{metric.OTHER}`, where counts add up and an age is that "
        "of the oldest. `ascertain partitions` names them all.",
        *parts,
        "## From the Temporal SDK\n\n`ascertain worker --temporal-metrics HOST:PORT` serves them, with "
        "durations in seconds and with the endings `_total` and `_seconds`. They are listed in Temporal's "
        "own documentation; the alerts use `temporal_worker_task_slots_available` and "
        "`temporal_workflow_task_schedule_to_start_latency_seconds`.",
    )


def _fields(model: type[BaseModel]) -> str:
    told = _attributes(model)
    rows = [
        f"| `{name}` | {_type(field)} | {_default(field)} | {told.get(name, '')} |"
        for name, field in model.model_fields.items()
    ]
    return "| key | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows)


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """What the docstring says of each field."""
    text = inspect.getdoc(model) or ""
    _, _, listed = text.partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", listed, re.MULTILINE | re.DOTALL)
    return {name: " ".join(words.split()).replace("``", "`") for name, words in found}


def _type(field: Any) -> str:
    schema = TypeAdapter(field.annotation).json_schema()
    return _schema_type(schema, schema.get("$defs", {})).replace("|", "or")


def _schema_type(schema: dict[str, Any], known: dict[str, Any]) -> str:
    if "$ref" in schema:
        schema = known[schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        return " | ".join(
            _schema_type(one, known) for one in schema["anyOf"] if one.get("type") != "null"
        )
    if "enum" in schema:
        return " | ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("format") == "duration":
        return "length of time"
    words = {
        "object": "table",
        "integer": "whole number",
        "string": "text",
        "boolean": "true | false",
    }
    kind = str(schema.get("type", "any"))
    return words.get(kind, kind)


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, timedelta):
        return f"`{value.total_seconds():g}`"
    if isinstance(value, BaseModel):
        return "see below"
    return "" if value is None else f"`{json.dumps(value)}`"


def contracts() -> str:
    """The public JSON."""
    parts = [
        f"## {model.__name__}\n\n{words}\n\n```json\n{json.dumps(model.model_json_schema(), indent=2)}\n```"
        for words, model in _CONTRACTS
    ]
    return _page(
        "Contracts",
        "What crosses a process boundary, as JSON Schema. Any language may send and read it. What "
        "is read from us "
        "may get more fields in a later release; ignore those that you do not know.",
        *parts,
    )


def error_tree() -> str:
    """Every error with its code."""
    tree = (inspect.getdoc(errors) or "").split("::", 1)[1].split('\n"Unknown"', 1)[0]
    rows = [
        f"| `{error.__name__}` | `{error.code}` | {error.exit_code} | {'yes' if error.retried else 'no'} "
        f"| {_first_sentence(error)} |"
        for error in _errors(AscertainError)
    ]
    return _page(
        "Errors",
        "Everything that Ascertain raises, from `ascertain.errors`. That something may or may not "
        "exist outside is a "
        "value and never an error.",
        f"```text\n{inspect.cleandoc(tree)}\n```",
        "| error | code | exit code | retried by itself | meaning |\n|---|---|---|---|---|\n"
        + "\n".join(rows),
    )


def _errors(root: type[AscertainError]) -> list[type[AscertainError]]:
    found = [root]
    for error in root.__subclasses__():
        if error.__module__ == errors.__name__:
            found += _errors(error)
    return found


def _first_sentence(error: type[AscertainError]) -> str:
    return " ".join((inspect.getdoc(error) or "").split("\n\n")[0].split())


def search_attributes() -> str:
    """What can be searched for on the server."""
    rows = "\n".join(
        [
            f"| `{names.TASK_KIND}` | Keyword | always | the task's kind |",
            f"| `{names.TASK_PARTITION}` | Keyword | always | the task's partition |",
            f"| `{names.TASK_STATE}` | Keyword | once it left the happy path | where it stands |",
            f"| `{names.TASK_STATE_SINCE}` | Datetime | with `{names.TASK_STATE}` | since when |",
            f"| `{names.TASK_ERROR_CLASS}` | Keyword | while there is one | why, in a word for machines |",
        ]
    )
    values = ", ".join(f"`{state}`" for state in STATES)
    smooth = f"WorkflowType = '{names.TASK_WORKFLOW}' AND {names.TASK_STATE} IS NULL"
    return _page(
        "Search attributes",
        "Workers register them in the namespace when they start, or say the command that does it. "
        "They work in the "
        "Web UI, in `temporal workflow list --query` and in every SDK.",
        f"| attribute | type | written | what |\n|---|---|---|---|\n{rows}",
        f"`ascertain list --state` takes {values}. It shows the newest run of each task; a search of the "
        "server finds older ones too, with the label that they ended with.",
        "## Smooth tasks have no state\n\nA task that meets no trouble writes no history events "
        "for searching, so "
        f"`{names.TASK_STATE} = 'DONE'` finds only tasks that had left the happy path and came to "
        f"a good end. Find "
        "the smooth ones by what the server knows itself, which `ascertain list --state DONE` does "
        "for you:",
        f"```sql\n{smooth} AND ExecutionStatus = 'Completed'\n{smooth} AND ExecutionStatus = "
        f"'Running'\n```",
        "## Useful queries",
        "```sql\n"
        f"{names.TASK_STATE} = 'QUARANTINED' AND {names.TASK_STATE_SINCE} < '2026-01-01T00:00:00Z' "
        "AND ExecutionStatus = 'Running'\n"
        f"{names.TASK_PARTITION} = 'eur' AND {names.TASK_STATE} = 'HELD' AND ExecutionStatus = 'Running'\n"
        f"{names.TASK_ERROR_CLASS} = 'no_lookup' AND ExecutionStatus = 'Running'\n```",
    )


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
