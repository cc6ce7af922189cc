"""``hushcall plan-of``: a region comes in, the file of its numbering plan leaves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.whole_file import write_whole

USUAL_BITS = 24


def plan_of(
    region: Annotated[str, typer.Argument(help="Two letters, like PL.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; else to standard output.")] = None,
) -> None:
    """Draw a region's numbering plan from phonenumberslite's metadata.

    The plan's name holds a digest of what it says. A server takes the file as its setting `plan`; phones learn the plan
    when they enrol, compare the digest, and keep to it.

    [bold]Examples[/bold]

      hushcall plan-of PL --out pl.json

      HUSHCALL_ROUND__PLAN=pl.json hushcall serve
    """
    from hushcall.numbers.generate import plan_document
    from hushcall.numbers.plan_files import read_plan, to_bytes

    data = to_bytes(plan_document(region))
    if out is None:
        sys.stdout.buffer.write(data)
        return
    write_whole(out, data, "--out")
    plan = read_plan(data)
    lengths = "of any length" if plan.lengths else f"of {plan.most_digits} digits"
    show.console.print(
        f"Plan {plan.name}: +{plan.country_code}, {len(plan.area_codes)} area codes of {plan.area_digits} digits, "
        f"numbers {lengths}, items of {plan.suffix_bits} bits: {out}",
        markup=False,
        soft_wrap=True,
    )
    if plan.suffix_bits > USUAL_BITS:
        times, megabytes = 1 << (plan.suffix_bits - USUAL_BITS), 4 << (plan.suffix_bits - 20)
        show.console.print(
            f"A bucket costs the decoder {times} times the work of North America's, and {megabytes} MB; "
            "only the mechanism subspace takes it.",
            soft_wrap=True,
        )
