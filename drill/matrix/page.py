"""The report as one page that needs nothing but itself."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from drill.acceptance import REFUSED_WRITE, by_person
from drill.matrix.moment import moments
from drill.matrix.picture import picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drill.matrix.result import Result

HEAD: Final = ("row", "outside", "path", "seed", "facts", "requests", "state", "late", "person", "")
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .7rem; text-align: left; }
tr.row { border-top: 1px solid #bbb; } .good { color: #18794e; } .bad { color: #b42318; font-weight: 600; }
svg { font: 11px system-ui, sans-serif; } .lane { font-weight: 600; } .mark { font-weight: 700; }
.time { fill: #555; font-variant-numeric: tabular-nums; } line { stroke-width: 2; opacity: .4; }
.message { stroke: #3b5bdb; fill: #3b5bdb; } .worker { stroke: #d9730d; fill: #d9730d; }
.outside { stroke: #7048e8; fill: #7048e8; } .ledger { stroke: #18794e; fill: #18794e; }
summary { cursor: pointer; } .scroll { overflow-x: auto; }
"""
_LEGEND: Final = (
    "T0 delivered · T1 claimed · T2 received outside · T3 the fact exists · "
    "T4 a late write is refused · T5 the effect is closed"
)


def cells(result: Result) -> tuple[str, ...]:
    """One line of the table."""
    cell, trace = result.cell, result.trace
    return (
        cell.row,
        cell.outside.value,
        cell.route.value,
        str(result.seed),
        str(len(trace.facts)),
        str(len(trace.submits)),
        "none" if trace.row is None else trace.row.state.value,
        str(trace.moves.count(REFUSED_WRITE)),
        ", ".join(by_person(trace)),
        "right" if result.ok else "WRONG",
    )


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    failed = sum(not result.ok for result in results)
    verdict = f"{len(results) - failed} right, {failed} wrong"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>Fault drill: {verdict}</title><style>{_STYLE}</style></head><body>",
            f"<h1>Fault drill</h1><p class='{'bad' if failed else 'good'}'>{verdict}</p>",
            *_table(results),
            f"<h2>What happened, row by row</h2><p>{_LEGEND}</p>",
            *(line for result in results for line in _story(result)),
            "</body></html>",
        ]
    )


def _table(results: Sequence[Result]) -> Iterable[str]:
    yield "<table><tr>" + "".join(f"<th>{name}</th>" for name in HEAD) + "</tr>"
    for result in results:
        style = "good" if result.ok else "bad"
        told = "".join(f"<td>{escape(cell)}</td>" for cell in cells(result)[:-1])
        verdict = f'<td class="{style}">{cells(result)[-1]}</td>'
        yield f'<tr class="row">{told}{verdict}</tr>'
    yield "</table>"


def _story(result: Result) -> Iterable[str]:
    cell = result.cell
    style = "good" if result.ok else "bad"
    title = f"{cell.row} · {cell.outside} · {cell.route} · seed {result.seed}"
    yield f'<details{"" if result.ok else " open"}><summary class="{style}">{title}</summary>'
    yield f"<p>{escape(result.about)}. Task {cell.task_id}, effect {result.trace.effect_id}.</p>"
    if result.faults:
        yield "<ul>" + "".join(f"<li>{escape(fault)}</li>" for fault in result.faults) + "</ul>"
    told = moments(result)
    if told:
        yield f'<div class="scroll">{picture(told)}</div>'
    yield "</details>"
