"""What the documents promise to a reader: every command of the README, the snippets of the demo, every example file.

The README's commands run as written, in their order, from a directory that looks like a checkout after a build. Only
the `cargo` lines are left out: this test runs inside what they start.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import kvroute
from support.http import answers_ok
from support.process import Process
from support.waiting import wait_until

_ROOT = Path(__file__).resolve().parent.parent


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _without_cargo(block: str) -> str:
    return "".join(line for line in block.splitlines(keepends=True) if not line.startswith("cargo "))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory where `target/release/kvroute` is the binary under test."""
    (tmp_path / "target/release").mkdir(parents=True)
    (tmp_path / "target/release/kvroute").symlink_to(kvroute.binary())
    return tmp_path


@pytest.fixture
def python_first(tmp_path: Path) -> dict[str, str]:
    """An environment where `python3` is the interpreter that has the clients."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    venv = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{venv}:{tools}:{os.environ['PATH']}"}


def _run(block: str, checkout: Path, env: dict[str, str]) -> str:
    done = subprocess.run(["bash", "-eu", "-c", block], cwd=checkout, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.deadline(240)
def test_every_command_of_the_readme_works_as_written(checkout: Path, python_first: dict[str, str]) -> None:
    blocks = [_without_cargo(block) for block in _blocks((_ROOT / "README.md").read_text())]
    commands = [block for block in blocks if block.strip()]
    serving = [block for block in commands if "kvroute serve" in block]
    engines = [block for block in commands if "kvroute engine" in block]
    asking = [block for block in commands if block not in serving + engines]
    assert len(serving) == 1 and len(engines) == 1 and len(asking) >= 4, commands

    background = []
    try:
        background.append(_start("engines", engines[0] + "wait\n", checkout))
        _wait_for(8000, "/health")
        _wait_for(8001, "/health")
        background.append(_start("gateway", serving[0], checkout))
        _wait_for(8780, "/readyz")
        for block in asking:
            answer = _run(block, checkout, python_first)
            assert answer.strip(), f"says nothing:\n{block}"
            assert "error" not in answer.lower(), answer
    finally:
        for process in reversed(background):
            process.kill()


def _start(name: str, block: str, checkout: Path) -> Process:
    return Process(name, ["bash", "-c", f"cd {checkout}\n{block}"])


def _wait_for(port: int, path: str) -> None:
    wait_until(f"port {port} answers {path}", lambda: answers_ok(f"http://127.0.0.1:{port}{path}"), 20)


@pytest.mark.deadline(150)
def test_the_demo_ends_with_its_table_and_its_snippets_work_as_printed(
    tmp_path: Path, checkout: Path, python_first: dict[str, str]
) -> None:
    results = tmp_path / "demo.json"
    demo = Process("demo", [kvroute.binary(), "demo", "--seconds", "30", "--keep", "--json", results])
    try:
        wait_until("the demo prints its snippets", lambda: "# openai" in demo.log(), 90)
        log = demo.log()
        strategies = [row["strategy"] for row in json.loads(results.read_text())]
        assert strategies[:1] == ["random"] and "prefix_aware" in strategies
        assert all(strategy in log for strategy in strategies)
        for name in ("curl", "boto3", "openai"):
            snippet = log.split(f"# {name}\n", 1)[1].split("\n\n", 1)[0] + "\n"
            assert _run(snippet, checkout, python_first).strip(), name
    finally:
        demo.kill()


@pytest.mark.parametrize("example", sorted((_ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_a_valid_configuration(example: Path) -> None:
    done = subprocess.run(
        [kvroute.binary(), "check", "--strict", "--config", example], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "endpoint" in done.stdout
