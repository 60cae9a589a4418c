"""A Vega-Lite spec becomes a file: a page that needs no network (.html), a drawing (.svg) or a picture (.png).

Text stays text in pages and drawings, so the reader's fonts show it. A picture needs a font here for every letter in
it: one that would become a box is refused, not drawn.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert

Spec = Mapping[str, Any]
"""Vega-Lite, its data inline."""
FONTS = "HEADWAY_FONTS"
"""Environment variable: a directory of further fonts."""
FONT_FAMILIES = (
    "DejaVu Sans",
    "Arial",
    "NanumGothic",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "Apple SD Gothic Neo",
    "Malgun Gothic",
    "sans-serif",
)
_MISSING = "\U0010fffd"
"""Of the last private plane: no font has it, so it shows what a missing letter looks like."""
_OPEN = "\ue0f3"
"""Stands for "<" while a page is made: a label must not end the script that holds it."""
_MOST_LETTERS = 2000
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ue0f3\ufffe\uffff]")


class ChartError(ValueError):
    """A chart that cannot be written; the text says what would work."""


def write_chart(spec: Spec, path: Path) -> None:
    """Raises ChartError for an ending other than .html, .svg or .png, a missing font, a place that can't be written."""
    render = _RENDERERS.get(path.suffix.lower())
    if render is None:
        raise ChartError(f"{path.name}: a chart's file must end in {', '.join(_RENDERERS)}")
    content = render(spec)
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise ChartError(f"{path}: {error.strerror}") from None


def html(spec: Spec) -> str:
    """A whole page with its scripts inside."""
    _register_fonts()
    page = str(vl_convert.vegalite_to_html(_json(spec).replace("<", _OPEN), bundle=True))
    return page.replace(_OPEN, "\\u003c")


def svg(spec: Spec) -> str:
    _register_fonts()
    return str(vl_convert.vegalite_to_svg(_json(spec)))


def png(spec: Spec, scale: float = 2.0) -> bytes:
    """Raises ChartError if letters of the spec have no font here."""
    if missing := undrawable(json.dumps(spec, ensure_ascii=False)):
        raise ChartError(
            f"no font here has {missing[:20]!r}: install one (Debian: fonts-nanum for Korean, fonts-noto-cjk for all "
            f"of East Asia), name a directory of fonts in {FONTS}, or write .svg or .html: readers bring fonts"
        )
    return bytes(vl_convert.vegalite_to_png(_json(spec), scale=scale))


_RENDERERS: dict[str, Callable[[Spec], str | bytes]] = {".html": html, ".svg": svg, ".png": png}


def undrawable(text: str) -> str:
    """The letters of `text`, each once, that would be boxes or blanks in a picture. Latin ones are in every font."""
    _register_fonts()
    letters = dict.fromkeys(letter for letter in _NOT_XML.sub("", text) if ord(letter) > 0x24F and not letter.isspace())
    return "".join(letter for letter in list(letters)[:_MOST_LETTERS] if not _has_font(letter))


@cache
def _register_fonts() -> None:
    directory = os.environ.get(FONTS)
    if directory:
        if not Path(directory).is_dir():
            raise ChartError(f"{FONTS} {directory!r}: there is no such directory")
        vl_convert.register_font_directory(directory)


@cache
def _has_font(letter: str) -> bool:
    return _picture(letter) not in (_picture(_MISSING), _picture(" "))


@cache
def _picture(letter: str) -> bytes:
    family = ", ".join(FONT_FAMILIES)
    text = f'<text x="2" y="24" font-size="24" font-family="{family}">{letter}</text>'
    return bytes(
        vl_convert.svg_to_png(f'<svg xmlns="http://www.w3.org/2000/svg" width="32" height="32">{text}</svg>', scale=1.0)
    )


def _json(spec: Spec) -> str:
    """Without what no XML may hold."""
    merged = {"usermeta": _EMBED, **spec, "config": {**_CONFIG, **spec.get("config", {})}}
    return json.dumps(_clean(merged), ensure_ascii=False, allow_nan=False)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_XML.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


_EMBED = {"embedOptions": {"actions": {"export": True, "source": False, "compiled": False, "editor": False}}}
"""A page offers its chart as a file, and no link elsewhere."""
_CONFIG: dict[str, Any] = {
    "font": ", ".join(FONT_FAMILIES),
    "background": "white",
    "view": {"stroke": None},
    "axis": {"gridColor": "#e8e8e8", "labelFontSize": 11, "titleFontSize": 12},
    "legend": {"labelFontSize": 11, "titleFontSize": 12},
    "title": {"fontSize": 14, "anchor": "start", "subtitleFontSize": 11, "subtitleColor": "#555"},
}
