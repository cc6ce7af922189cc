"""The way of a call, drawn with the figures of a run: what each step holds comes in, one SVG leaves."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

_BOX, _GAP, _TALL = 178, 30, 92
_STYLE = """
.box { fill: #fff; stroke: #4a6fa5; stroke-width: 1.5 } .phone { fill: #eef4fb } .server { fill: #fdf3e7 }
.head { font-weight: 600 } .small { font-size: 12px }
text { fill: #222; text-anchor: middle } .from { text-anchor: start } .to { text-anchor: end }
"""


@dataclass(frozen=True)
class Step:
    """One box: what it is, and two lines about what is in it."""

    name: str
    first: str
    second: str


def draw(phone: Sequence[Step], server: Sequence[Step], between: str, back: str) -> str:
    """The phone's steps above, the server's below, and what travels between them."""
    count = max(len(phone), len(server))
    width, height = count * (_BOX + _GAP) + _GAP, 2 * _TALL + 190
    upper, lower = 46, _TALL + 150
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        "font-family='system-ui, sans-serif' font-size='14'>",
        "<title>From a call to the signed list, and back</title>",
        f"<style>{_STYLE}</style><rect width='{width}' height='{height}' fill='#fff'/>",
        "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' "
        "orient='auto-start-reverse'><path d='M0 0 10 5 0 10z' fill='#4a6fa5'/></marker></defs>",
        f"<text class='from head' x='{_GAP}' y='26'>on the phone</text>",
        f"<text class='from head' x='{_GAP}' y='{lower + _TALL + 26}'>on the server</text>",
    ]
    for row, (steps, top, kind) in enumerate(((phone, upper, "phone"), (server, lower, "server"))):
        for place, step in enumerate(steps):
            # The server's steps run from right to left: a report goes down on the right, the list comes up on the left.
            left = _GAP + (count - 1 - place if row else place) * (_BOX + _GAP)
            parts.append(_box(step, left, top, kind))
            if place:
                start, end = (left + _BOX + _GAP, left + _BOX) if row else (left - _GAP, left)
                parts.append(_arrow(start, top + _TALL / 2, end, top + _TALL / 2))
    right, first = _GAP + (count - 1) * (_BOX + _GAP) + _BOX / 2, _GAP + _BOX / 2
    level = upper + _TALL
    parts.append(_arrow(right, upper + _TALL, right, lower))
    parts.append(f"<text class='to' x='{right - 10}' y='{level + 40}'>{_e(between)}</text>")
    parts.append(_arrow(first, lower, first, upper + _TALL))
    parts.append(f"<text class='from' x='{first + 10}' y='{level + 74}'>{_e(back)}</text></svg>")
    return "\n".join(parts) + "\n"


def _box(step: Step, left: float, top: float, kind: str) -> str:
    middle = left + _BOX / 2
    return (
        f"<rect class='box {kind}' x='{left}' y='{top}' width='{_BOX}' height='{_TALL}' rx='8'/>"
        f"<text class='head' x='{middle}' y='{top + 28}'>{_e(step.name)}</text>"
        f"<text class='small' x='{middle}' y='{top + 52}'>{_e(step.first)}</text>"
        f"<text class='small' x='{middle}' y='{top + 72}'>{_e(step.second)}</text>"
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='#4a6fa5' stroke-width='2' marker-end='url(#tip)'/>"


def _e(text: str) -> str:
    return html.escape(text, quote=False)
