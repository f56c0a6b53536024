"""The case file of a task as one HTML document that needs nothing beside it. Pure."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from ascertain.cli import standing, wording
from ascertain.machine import ACTOR, Actor, Move

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ascertain.cli.known import Known, KnownEffect
    from ascertain.cli.story import Story
    from ascertain.contracts.effect import AuditEvent

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #8886; }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
tr.person { background: #fc03; }
"""
_DECISIONS: Final = frozenset(move for move, actor in ACTOR.items() if actor is Actor.PERSON)


def render(known: Known, told: Story) -> str:
    """The whole document: what is known, the line of time, the evidence, the decisions.

    Args:
        known: What could be found out.
        told: The same in words.
    """
    title = escape(f"Case file of task {known.task_id}")
    events = sorted(_events(known), key=lambda found: (found[1].at, found[0].row.effect_id))
    parts = [
        f"<h1>{escape(told.headline)}</h1>",
        f"<p>As known at {_time(wording.moment(known.at))}.</p>",
        _section("Effects", _effects(known)),
        _section("Timeline", _timeline(events)),
        _section("Decisions", _decisions(events)),
        *(_section(chapter.title, _lines(chapter.lines)) for chapter in told.chapters),
        _section("What is safe next", _safe_next(told)),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _events(known: Known) -> Iterable[tuple[KnownEffect, AuditEvent]]:
    for effect in known.effects:
        for told in effect.trail:
            yield effect, told


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _effects(known: Known) -> str:
    rows = [
        (
            escape(effect.row.step),
            escape(effect.row.kind),
            f"<strong>{effect.row.state}</strong><br>{escape(standing.sentence(known, effect))}",
            _code(effect.row.effect_id),
            _code(effect.row.external_id or ""),
            escape(standing.attempts(effect)),
        )
        for effect in known.effects
    ]
    return _table(("step", "kind", "state", "effect", "exists as", "attempts"), rows)


def _timeline(events: Sequence[tuple[KnownEffect, AuditEvent]]) -> str:
    rows = [
        (
            _time(wording.moment(told.at)),
            escape(effect.row.step),
            escape(told.move),
            escape(wording.worker(told.actor)),
            escape(wording.event(told)) + _evidence(told),
        )
        for effect, told in events
    ]
    kinds = ["person" if told.move in _DECISIONS else "" for _, told in events]
    return _table(("at", "step", "move", "by", "what is known by it"), rows, kinds)


def _evidence(told: AuditEvent) -> str:
    """Where it is from, and what was seen, folded away."""
    seen: dict[str, object] = {"source": told.evidence.source, "rule": told.evidence.rule}
    seen |= {"body": told.evidence.body} if told.evidence.body else {}
    if told.receipt is not None:
        seen["receipt"] = told.receipt.model_dump(mode="json", exclude_none=True)
    shown = escape(json.dumps(seen, indent=2, ensure_ascii=False))
    chained = escape(told.hash[:16])
    return f"<details><summary>evidence, {chained}</summary><pre>{shown}</pre></details>"


def _decisions(events: Sequence[tuple[KnownEffect, AuditEvent]]) -> str:
    rows = [
        (
            _time(wording.moment(told.at)),
            escape(told.actor),
            escape(f"{Move(told.move)} of step {effect.row.step}"),
            escape(told.evidence.detail.removeprefix(f"{told.actor}: ")),
            "yes" if told.evidence.body.get("override") else "",
        )
        for effect, told in events
        if told.move in _DECISIONS
    ]
    if not rows:
        return "<p>Nobody has decided anything.</p>"
    return _table(("at", "who", "what", "why", "overriding"), rows)


def _safe_next(told: Story) -> str:
    if not told.safe_next:
        return "<p>Nothing needs to be done.</p>"
    items = (f"<li>{_code(item.command)}<br>{escape(item.meaning)}</li>" for item in told.safe_next)
    return f"<ul>\n{''.join(items)}\n</ul>"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(line)}</p>" for line in lines)


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str] = ()
) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = [
        f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in row)}</tr>'
        for row, kind in zip(rows, kinds or [""] * len(rows), strict=True)
    ]
    return f"<table>\n<tr>{head}</tr>\n{chr(10).join(body)}\n</table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _time(text: str) -> str:
    return f"<time>{escape(text)}</time>"
