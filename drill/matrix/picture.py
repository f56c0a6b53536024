"""A swim-lane picture of one cell, as SVG: order and times are those that were recorded."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from drill.matrix.moment import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drill.matrix.moment import Moment

_LEFT: Final = 90
_LANE_WIDTH: Final = 250
_TOP: Final = 34
_STEP: Final = 24
_CHARACTERS: Final = 38


def picture(moments: Sequence[Moment]) -> str:
    """Lanes from left to right, time from top to bottom; steps are even and each tells its time."""
    height = _TOP + _STEP * (len(moments) + 1)
    width = _LEFT + _LANE_WIDTH * len(Lane)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        *(_lane(number, lane, height) for number, lane in enumerate(Lane)),
        *(_moment(number, moment, moments[0]) for number, moment in enumerate(moments)),
        "</svg>",
    ]
    return "\n".join(parts)


def _lane(number: int, lane: Lane, height: int) -> str:
    x = _LEFT + _LANE_WIDTH * number + 8
    return (
        f'<text x="{x}" y="18" class="lane">{lane}</text>'
        f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{height}" class="{lane}"/>'
    )


def _moment(number: int, moment: Moment, first: Moment) -> str:
    y = _TOP + _STEP * number + 10
    x = _LEFT + _LANE_WIDTH * list(Lane).index(moment.lane) + 8
    passed = (moment.at - first.at).total_seconds()
    short = moment.what
    if len(short) > _CHARACTERS:
        short = f"{short[: _CHARACTERS - 1]}…"
    mark = f'<text x="0" y="{y + 4}" class="mark">{moment.mark}</text>' if moment.mark else ""
    return (
        f"<g><title>{escape(moment.what)}</title>{mark}"
        f'<text x="24" y="{y + 4}" class="time">{passed:8.3f} s</text>'
        f'<circle cx="{x}" cy="{y}" r="5" class="{moment.lane}"/>'
        f'<text x="{x + 10}" y="{y + 4}">{escape(short)}</text></g>'
    )
