"""The tutorial docs/operate/will-it-pay.md: its commands run as written, in their order, and print what it shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import kvroute

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = (_ROOT / "docs/operate/will-it-pay.md").read_text()


def _blocks(page: str) -> list[tuple[str, str]]:
    """Fenced blocks, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def reader(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with the examples, and an environment in which `kvroute` is the binary under test."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kvroute").symlink_to(kvroute.binary())
    (tools / "python3").symlink_to(sys.executable)
    (tmp_path / "examples").symlink_to(_ROOT / "examples")
    return tmp_path, {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "120"}


def _run(block: str, reader: tuple[Path, dict[str, str]]) -> subprocess.CompletedProcess[str]:
    folder, env = reader
    command = ["bash", "-eu", "-c", block]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.deadline(240)
def test_every_command_of_the_tutorial_works_and_prints_what_the_page_shows(
    reader: tuple[Path, dict[str, str]],
) -> None:
    printed: list[str] = []
    shown, commands = 0, []
    for language, block in _blocks(_PAGE):
        if language == "sh":
            done = _run(block, reader)
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            printed = [line.rstrip() for line in done.stdout.splitlines()]
            commands.append(block)
        elif language == "text":
            places = [printed.index(line) if line in printed else line for line in block.splitlines()]
            assert all(isinstance(place, int) for place in places), f"not printed: {places}\n" + "\n".join(printed)
            assert places == sorted(places), block
            shown += 1
    assert shown >= 5
    for word in ("trace stats", "analyze", "replay", "sweep", "--fail-if"):
        assert any(f"{word} " in command for command in commands), f"the page has no {word}"

    interval = re.search(r"the page's verdict \((.*?)\)", _PAGE.replace("\n", " "))
    assert interval, "the page names the interval"
    report = (reader[0] / "replay.html").read_text().replace("\u00a0", " ")
    assert f"interval {interval[1]})" in report

    default = _run("kvroute replay llm.log --replicas 8 --strategies prefix_aware", reader).stdout
    assert re.search(r"^Largest share \(x\) +(\S+)$", default, re.MULTILINE)[1] in _PAGE, default

    # The condition of the last command can come true.
    stricter = commands[-1].replace("p90_ttft_ms > 100", "p90_ttft_ms > 10")
    assert stricter != commands[-1]
    assert _run(stricter, reader).returncode == 99


@pytest.mark.deadline(120)
def test_the_settings_that_the_tutorial_replays_are_those_that_the_analysis_advises(
    reader: tuple[Path, dict[str, str]],
) -> None:
    made = _run("python3 examples/access_log.py > llm.log; kvroute analyze llm.log --replicas 8 --json", reader)
    assert made.returncode == 0, made.stderr
    advised = json.loads(made.stdout)["advice"]["settings"]
    length, threshold = advised["prefix_length"], advised["concurrency_threshold"]
    assert f"--prefix-length {length} --concurrency-threshold {threshold}" in _PAGE, advised


def test_the_tutorials_nginx_block_is_that_of_the_page_on_traces_and_the_example_log_has_its_members() -> None:
    def nginx(name: str) -> str:
        (block,) = (text for language, text in _blocks((_ROOT / name).read_text()) if language == "nginx")
        return block

    block = nginx("docs/operate/will-it-pay.md")
    assert block == nginx("docs/operate/traces.md")
    log = subprocess.Popen([sys.executable, _ROOT / "examples/access_log.py"], stdout=subprocess.PIPE, text=True)
    row = json.loads(log.stdout.readline())
    log.kill()
    log.wait()
    assert list(row) == re.findall(r'"(\w+)":', block)
