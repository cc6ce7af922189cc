"""The command line of the lab: one file per command or small group of them. ``hushcall-lab --help`` lists them."""

import typer

from hushcall import cli
from hushcall_lab.cli import audit, bench, data, demo, experiment, phones, prove, simulate

app = typer.Typer(
    name="hushcall-lab",
    help="Experiments, simulation, audit, benchmarks and proofs for hushcall.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("phones")(phones.simulate)
app.command("simulate")(simulate.simulate)
app.command("audit")(audit.audit)
app.add_typer(prove.prove, name="prove")
app.command("experiment")(experiment.experiment)
app.add_typer(bench.bench, name="bench")
app.add_typer(data.data, name="data")
app.command("archive")(data.archive)


def main() -> None:
    cli.run(app)
