"""A result as tables: for a terminal, and as Markdown for a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

_PARTS: Final = ("client", "worker", "server", "database")
_NONE: Final = "-"
_MIB: Final = 1024**2
_COUNTED: Final = ("statements", "commits", "wal_syncs", "wal_bytes")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: a caption, column heads, and rows of text."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def on_terminal(result: Mapping[str, Any]) -> RenderableType:
    """The result for people at a terminal."""
    parts: list[RenderableType] = [Text(line) for line in _heading(result)]
    for sheet in sheets(result):
        table = Table(title=sheet.caption, title_justify="left")
        for place, head in enumerate(sheet.heads):
            table.add_column(head, justify="left" if place < _names(sheet) else "right")
        for row in sheet.rows:
            table.add_row(*row)
        parts.append(table)
    return Group(*parts)


def as_markdown(result: Mapping[str, Any]) -> str:
    """The result as a page shows it."""
    command, *lines = _heading(result)
    blocks = ["  \n".join((f"`{command}`", *lines))]
    for sheet in sheets(result):
        marks = ["---" if n < _names(sheet) else "--:" for n in range(len(sheet.heads))]
        lines = [f"| {' | '.join(cells)} |" for cells in (sheet.heads, marks, *sheet.rows)]
        blocks.append("\n".join((f"**{sheet.caption}**", "", *lines)))
    return "\n\n".join(blocks) + "\n"


def sheets(result: Mapping[str, Any]) -> Iterator[Sheet]:
    """Every table of a result that has rows."""
    made = next(makes for key, makes in _SHEETS.items() if key in result)
    return (sheet for make in (*made, _aims) if (sheet := make(result)).rows)


def _names(sheet: Sheet) -> int:
    """How many columns, from the left, are words."""
    return 2 if sheet.heads[1] in {"load", "of"} else 1


def _heading(result: Mapping[str, Any]) -> Iterator[str]:
    machine, versions, load = result["machine"], result["versions"], result["load_average"]
    yield str(result["command"])
    yield (
        f"{machine['processor']}, {machine['cores']} cores, {machine['architecture']}, "
        f"{machine['kernel']}, {machine['python']}; "
        f"load average {load['before']:g} before and {load['after']:g} after"
    )
    yield ", ".join(f"{name} {number}" for name, number in versions.items())


def _loads(result: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    names = [load for side in result["sides"].values() for load in side["loads"]]
    for load in dict.fromkeys(names):
        for name, side in result["sides"].items():
            yield load, name, side["loads"][load]


def _processor(result: Mapping[str, Any]) -> Sheet:
    rows: list[list[str]] = []
    for load, name, found in _loads(result):
        parts = [found["cpu_parts_ms"].get(part) for part in _PARTS]
        cells = [_NONE if part is None else _number(part) for part in parts]
        rows.append([name, _words(load), *cells, _spread(found["cpu_ms"])])
    return Sheet("CPU per task, ms: median of the rounds", ["side", "load", *_PARTS, "all"], rows)


def _time(result: Mapping[str, Any]) -> Sheet:
    keys = ("tasks_per_s", "p50_ms", "p95_ms")
    rows = [
        [name, _words(load), *(_spread(found[key]) for key in keys)]
        for load, name, found in _loads(result)
    ]
    heads = ["side", "load", "tasks per s", "p50, ms", "p95, ms"]
    return Sheet("Time: median of the rounds (least to most)", heads, rows)


def _cost(result: Mapping[str, Any]) -> Sheet:
    rows: list[list[str]] = []
    for name, side in result["sides"].items():
        database: Mapping[str, Any] = side["database"] or {}
        counted = [database.get(key) for key in _COUNTED]
        # A short batch, which is taken off, may hold what the server wrote by itself: then it is no figure.
        cells = [_NONE if number is None or number < 0 else _number(number) for number in counted]
        events = side["history_events"]
        rows.append([name, _NONE if events is None else f"{events:.3g}", *cells])
    heads = ["side", "history events", "statements", "commits", "waits for WAL sync", "WAL bytes"]
    return Sheet("Counted per task", heads, rows)


def _scale(result: Mapping[str, Any]) -> Sheet:
    names = list(next(iter(result["scale"].values())))
    rows = [
        [f"{int(settled):,}", *(_taken(found[name]) for name in names)]
        for settled, found in result["scale"].items()
    ]
    return Sheet("p50 / p99, ms", ["effects settled before", *map(_words, names)], rows)


def _quarantined(result: Mapping[str, Any]) -> Sheet:
    found = dict(result["quarantined"])
    effects = found.pop("effects")
    rows = [[f"{effects:,}", *map(_taken, found.values())]]
    heads = ["effects that wait for a person", *map(_words, found)]
    return Sheet("Listed, p50 / p99, ms", heads, rows)


def _taken(found: int | Mapping[str, float]) -> str:
    """Bytes, or times."""
    if isinstance(found, int):
        return str(found)
    return f"{_number(found['p50_ms'])} / {_number(found['p99_ms'])}"


def _takeover(result: Mapping[str, Any]) -> Sheet:
    rows = [[name, _spread(found)] for name, found in result["takeover"].items()]
    return Sheet("Until it is asked for, or settled, s", ["after", "median (least to most)"], rows)


def _compared(result: Mapping[str, Any]) -> Sheet:
    rows = [[pair, _spread(found)] for pair, found in result.get("compared", {}).items()]
    return Sheet("Ratios within a round", ["ratio", "median (least to most)"], rows)


def _memory(result: Mapping[str, Any]) -> Sheet:
    rows = [
        [
            case,
            part,
            *(_number(found[key] / _MIB) for key in ("before", "after")),
            str(found["per_task"]),
        ]
        for case, parts in result["memory"].items()
        for part, found in parts.items()
    ]
    heads = ["open tasks", "of", "before, MiB", "after, MiB", "bytes per task"]
    return Sheet(f"Resident memory before and after {result['tasks']:,} tasks", heads, rows)


def _ratios(result: Mapping[str, Any]) -> Sheet:
    keys = ("cpu_ms", "tasks_per_s", "p50_ms", "p95_ms")
    rows = [
        [pair, _words(load), *(_spread(found[key]) for key in keys)]
        for pair, loads in result["ratios"].items()
        for load, found in loads.items()
    ]
    heads = ["ratio", "load", "CPU", "tasks per s", "p50", "p95"]
    return Sheet("Ratios within a round: median (least to most)", heads, rows)


def _aims(result: Mapping[str, Any]) -> Sheet:
    rows = [
        [
            pair,
            _words(aim["what"]),
            f"{'at least' if aim['at_least'] else 'at most'} {aim['wanted']:g}",
            _number(aim["measured"]),
            "met" if aim["met"] else "missed",
        ]
        for pair, aims in result["aims"].items()
        for aim in aims
    ]
    return Sheet("Aims", ["ratio", "of", "wanted", "measured", ""], rows)


def _tuning(result: Mapping[str, Any]) -> Sheet:
    keys = ("worker_cpu", "cpu_ms", "tasks_per_s", "p50_ms")
    rows = [
        [name, _words(load), *(_spread(found[key]) for key in keys)]
        for name, loads in result["tuning"].items()
        for load, found in loads.items()
    ]
    heads = ["changed", "load", "worker's CPU", "CPU", "tasks per s", "p50"]
    return Sheet(
        "Ratios to the worker as it is, within a round: median (least to most)", heads, rows
    )


# By the key that only a result of the kind has.
_SHEETS: Final[Mapping[str, Sequence[Callable[[Mapping[str, Any]], Sheet]]]] = {
    "sides": (_processor, _time, _cost, _ratios),
    "scale": (_scale, _quarantined),
    "takeover": (_takeover, _compared),
    "memory": (_memory,),
    "tuning": (_tuning,),
}


def _words(name: str) -> str:
    return name.replace("in_flight_", "in flight: ").replace("_", " ")


def _spread(found: Mapping[str, float]) -> str:
    return f"{_number(found['median'])} ({_number(found['min'])} to {_number(found['max'])})"


def _number(value: float) -> str:
    """Three digits, and no more zeros than that says."""
    if value >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004 - and two
