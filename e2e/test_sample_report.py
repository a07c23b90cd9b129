"""docs/sample-aws-8k.html, the report that documents show: made by one command, whole without network or scripts."""

import re
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support import chromium, kvroute

_ROOT = Path(__file__).resolve().parent.parent
_SAMPLE = "docs/sample-aws-8k.html"
_COMMAND = f"kvroute replay --preset aws-8k --html {_SAMPLE}"
_BYTES_MAX = 400_000

# Every chart of a replay that has neither spills nor events nor a price, with its question and its drawings.
_CHARTS = {
    "ttft-cdf": ("How many users are faster, not just the mean?", 1),
    "percentiles": ("How fast is each strategy?", 2),
    "locality": ("Who lost the cache: workload, router or engine?", 1),
    "hits-over-time": ("Does reuse hold, and does it come back?", 1),
    "shares": ("Does one replica get it all?", 3),
    "shape": ("Is this trace like your traffic?", 3),
}
_SHAPES = {"path", "rect", "circle", "line", "polyline", "polygon"}
# Attributes whose value a browser fetches, or goes to.
_ADDRESSES = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "formaction", "background", "manifest"}
_NO_SCRIPTS = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""

needs_chromium = pytest.mark.skipif(not chromium.found(), reason="there is no chromium (Debian: apt install chromium)")


@dataclass
class _Chart:
    title: str = ""
    drawings: int = 0
    shapes: int = 0
    rows: int = 0


@dataclass
class _Document(HTMLParser):
    """What is in a page."""

    html: str
    charts: dict[str, _Chart] = field(default_factory=dict)
    buttons: int = 0
    addresses: list[str] = field(default_factory=list)
    words: str = ""
    _chart: _Chart | None = None
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = dict(attributes)
        self.addresses += [value or "" for name, value in attributes if name in _ADDRESSES]
        self.buttons += tag == "button"
        if tag == "figure":
            self._chart = self.charts.setdefault(names["id"], _Chart())
        if self._chart:
            self._chart.drawings += tag == "svg" and names.get("role") == "img"
            self._chart.shapes += tag in _SHAPES
            self._chart.rows += tag == "tr"
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass
        if tag == "figure":
            self._chart = None

    def handle_data(self, data: str) -> None:
        if "script" in self._open or "style" in self._open:
            return
        self.words += data
        if self._chart and "h3" in self._open and "span" not in self._open:
            self._chart.title += data.strip()


def _assert_whole(document: _Document) -> None:
    assert {name: (chart.title, chart.drawings) for name, chart in document.charts.items()} == _CHARTS
    for name, chart in document.charts.items():
        assert chart.shapes >= 3 and chart.rows >= 2, f"{name} is empty: {chart}"
    for word in ("random", "least_outstanding", "prefix_aware", "P90 TTFT", "Set these", "simulated", _COMMAND):
        assert word in document.words.replace("\u00a0", " "), word


@pytest.mark.deadline(120)
def test_the_sample_report_is_what_its_one_command_writes(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    done = subprocess.run(
        _COMMAND.split(), executable=kvroute.binary(), cwd=tmp_path, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    made, kept = (tmp_path / _SAMPLE).read_bytes(), (_ROOT / _SAMPLE).read_bytes()
    assert made == kept, f"the sample is out of date: run `{_COMMAND}` with the kvroute of today on the path"
    assert len(kept) <= _BYTES_MAX


@needs_chromium
def test_the_sample_report_opens_without_a_network_and_every_chart_is_there() -> None:
    document = _Document(chromium.opened(_ROOT / _SAMPLE))
    _assert_whole(document)
    assert document.buttons == 3, "two to copy settings, one to save the data: the script has run"


@needs_chromium
def test_the_sample_report_has_the_same_content_where_scripts_are_off(tmp_path: Path) -> None:
    page = tmp_path / "without-scripts.html"
    html = (_ROOT / _SAMPLE).read_text()
    page.write_text(html.replace("<head>", f"<head>{_NO_SCRIPTS}", 1))
    document = _Document(chromium.opened(page))
    assert document.buttons == 0, "a script has run"
    _assert_whole(document)


def test_the_sample_report_asks_for_nothing_from_elsewhere() -> None:
    html = (_ROOT / _SAMPLE).read_text()
    _assert_whole(_Document(html))
    assert _Document(html).addresses == [], "a report has neither links nor sources"
    assert "default-src 'none'" in html
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert "@import" not in style and "url(" not in style
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|import)\b", html.rsplit("<script>", 1)[1])
