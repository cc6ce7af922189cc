"""The demo's report page: its days and everybody's fate come in, one self-contained page and a chart leave."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from hushcall.lab.live.demo import Day, Fate, Plan
from hushcall.lab.study.report import STYLE
from hushcall.version import __version__

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 48, 34


def page(plan: Plan, days: Sequence[Day], fates: Sequence[Fate], summary: str) -> str:
    """One HTML file without anything from elsewhere: figures, fates and pictures inline."""
    rows = "".join(
        f"<tr><td>{d.day}<td>{d.reports:,}<td>{d.buckets_run}<td>{d.buckets_skipped}<td>{len(d.found)}"
        f"<td>{_names(d.missed)}<td>{_names(d.wrong)}<td>{d.blocked:,} of {d.spam_calls:,}<td>{d.warned:,}"
        f"<td>{d.others_blocked:,} of {d.other_calls:,}<td>{d.epsilon_today:.2f}<td>{_names(d.events)}</tr>"
        for d in days
    )
    ends = "".join(
        f"<tr><td>{html.escape(f.name)}<td>{f.number}<td>{'spam' if f.spam else 'a right to call'}"
        f"<td>{f.first} to {f.last}<td>{f.phones:,}<td>{f.listed_on or 'never'}<td>{f.over or ''}"
        f"<td>{f.blocks_from or ''}<td>{f.left_on or ''}"
        f"<td>{'' if f.estimate is None else f'{f.estimate:.0f}'}</tr>"
        for f in fates
    )
    heads = "day reports buckets_run skipped found missed wrongly_listed spam_blocked warned others_blocked ε events"
    of_fates = "who number what days phones_a_day listed_on by_days_of_evidence blocks_from left_on last_estimate"
    return f"""<!doctype html><html lang='en'><meta charset='utf-8'>
<meta name='viewport' content='width=device-width, initial-scale=1'>
<title>hushcall: the demo's days</title><style>{STYLE}</style>
<h1>{plan.days} days of {plan.phones:,} phones</h1>
<p>{html.escape(summary)}</p>
<p>Made by hushcall {__version__}, seed {plan.seed}. Phones and server did what is told here; only who spams was known
beforehand, to compare with.</p>
<figure>{chart(days)}</figure>
<h2>Day by day</h2><div class='scroll'><table><tr>{_heads(heads)}</tr>{rows}</table></div>
<p>Found and missed: spammers at work that day that are, or are not, on the list in the evening. Blocked: calls that the
list of the evening before stops. ε: spent by a phone that day, on average; a phone in a skipped bucket spends nothing.
</p>
<h2>Who called many phones</h2><div class='scroll'><table>
<tr>{_heads(of_fates)}</tr>{ends}</table></div>
<p>A number is listed by the evidence of one, two, four or seven days, warns on its first evening and blocks from its
second, or at once where it took the evidence of several days. The estimate counts reports of those days: a phone that
was called by several strangers reports one of them a day.</p></html>
"""


def chart(days: Sequence[Day]) -> str:
    """Spam calls of each day, and how many of them the list stopped, as SVG."""
    most = max((d.spam_calls for d in days), default=1) or 1
    step = (_WIDTH - _LEFT - 10) / max(len(days), 1)
    room = _HEIGHT - _BOTTOM - 40
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' "
        "font-family='system-ui, sans-serif' font-size='13'>",
        "<title>Spam calls by day, and those that were blocked</title>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#fff'/>",
        "<rect x='48' y='10' width='12' height='12' fill='#0072B2'/><text x='66' y='21' fill='#222'>blocked</text>",
        "<rect x='140' y='10' width='12' height='12' fill='#E69F00'/><text x='158' y='21' fill='#222'>rang with a "
        "warning</text>",
        "<rect x='300' y='10' width='12' height='12' fill='#D3D3D3'/><text x='318' y='21' fill='#222'>rang</text>",
    ]
    for place, d in enumerate(days):
        left, base = _LEFT + place * step + step * 0.15, float(_HEIGHT - _BOTTOM)
        for count, colour in (
            (d.blocked, "#0072B2"),
            (d.warned, "#E69F00"),
            (d.spam_calls - d.blocked - d.warned, "#D3D3D3"),
        ):
            tall = room * count / most
            base -= tall
            parts.append(
                f"<rect x='{left:.1f}' y='{base:.1f}' width='{step * 0.7:.1f}' height='{tall:.1f}' fill='{colour}'/>"
            )
        middle = left + step * 0.35
        share = d.blocked / d.spam_calls if d.spam_calls else 0.0
        parts.append(f"<text x='{middle:.1f}' y='{base - 5:.1f}' text-anchor='middle' fill='#222'>{share:.0%}</text>")
        parts.append(f"<text x='{middle:.1f}' y='{_HEIGHT - 14}' text-anchor='middle' fill='#222'>day {d.day}</text>")
    parts.append(f"<text x='4' y='{_HEIGHT - _BOTTOM}' fill='#222'>0</text>")
    parts.append(f"<text x='4' y='{_HEIGHT - _BOTTOM - room + 10}' fill='#222'>{most:,}</text></svg>")
    return "".join(parts)


def _heads(names: str) -> str:
    return "".join(f"<th>{name.replace('_', ' ')}" for name in names.split())


def _names(names: Sequence[Any]) -> str:
    return html.escape(", ".join(str(name) for name in names))
