"""Documents whose numbers come from running the commands that they show: `python docs/build.py --help`.

A fenced block that begins with `$ headway …` is that command and its output, one with `$ cat FILE` that file. A comment
`<!-- answer headway …`, a line break, a text, `-->` makes the paragraph after it: `{key:unit}` in the text stands for a
value of the command's --json. Keys go down by dots (`tiers.0.load_s`). The unit B shows bytes, % a share; a format as
of Python's numbers is followed; any other unit gets SI prefixes. `<!-- chart headway … --chart FILE -->` draws FILE.
Commands run in the page's folder.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from headway.cli import main as headway
from headway.cli.si import si, size

DOCS = Path(__file__).parent
PAGES = sorted((DOCS / "plan").glob("*.md"))
_BLOCK = re.compile(r"(```console\n\$ ((?:headway|cat) [^\n]*)\n).*?(```)", re.DOTALL)
_ANSWER = re.compile(r"(<!-- answer (headway [^\n]*)\n(.*?) -->\n)(?:[^\n]+\n)*", re.DOTALL)
_CHART = re.compile(r"<!-- chart (headway [^\n]*) -->")
_FIELD = re.compile(r"\{([\w.]+)(?::([^}]*))?\}")


def built(text: str, folder: Path = DOCS / "plan") -> str:
    """The page with every output and answer as the commands give them now."""
    text = _BLOCK.sub(lambda match: f"{match[1]}{_run(match[2], folder)}{match[3]}", text)
    return _ANSWER.sub(lambda match: f"{match[1]}{_filled(match[3], match[2], folder)}\n", text)


def drawn(text: str, folder: Path) -> None:
    """Every chart of the page. How letters are spaced in one is the machine's, so none is compared."""
    for match in _CHART.finditer(text):
        _run(match[1], folder)


@cache
def _run(command: str, folder: Path) -> str:
    """Raises SystemExit if the command fails: a page shows what works."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return (folder / arguments[0]).read_text()
    with chdir(folder):
        result = CliRunner().invoke(headway, arguments, prog_name="headway")
    if result.exit_code:
        raise SystemExit(f"{command}: {result.output}")
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


def _filled(text: str, command: str, folder: Path) -> str:
    answer = json.loads(_run(f"{command} --json", folder))
    return _FIELD.sub(lambda field: _shown(_value(answer, field[1]), field[2] or ""), text)


def _value(answer: Any, path: str) -> Any:
    for key in path.split("."):
        answer = answer[int(key)] if isinstance(answer, list) else answer[key]
    return answer


def _shown(value: Any, unit: str) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "none" if value is None else str(value).replace("_", " ")
    if unit == "B":
        return size(value)
    if unit == "%":
        return f"{value:.1%}"
    if not unit:
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if unit[0] in ",.0123456789":
        return format(value, unit)
    return si(value, unit)


@click.command()
@click.argument("pages", metavar="[FILE]…", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is stale.")
def main(pages: tuple[Path, ...], check: bool) -> None:
    """Run the commands that pages show, write outputs into them and charts beside them. Without FILE: docs/plan."""
    stale = []
    for page in pages or PAGES:
        old = page.read_text()
        new = built(old, page.parent)
        if not check:
            drawn(new, page.parent)
        if new != old:
            stale.append(page.name)
            if not check:
                page.write_text(new)
    if check and stale:
        click.echo(f"stale: {', '.join(stale)}; run python docs/build.py", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
