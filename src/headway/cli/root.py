"""`headway` and its commands. What a command needs is imported when it runs, so that help comes at once."""

from __future__ import annotations

import click

from headway.cli.bench import bench, report
from headway.cli.calibrate import calibrate
from headway.cli.one_line import OneLineGroup
from headway.cli.plan import plan
from headway.cli.serve import serve
from headway.cli.simulate import simulate


@click.group(cls=OneLineGroup, no_args_is_help=False, invoke_without_command=True)
@click.version_option(package_name="headway", message="headway %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """LLM inference as one system: one scheduler that serves, simulates, plans and measures."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (serve, simulate, calibrate, plan, bench, report):
    main.add_command(command)
