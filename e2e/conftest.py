"""Fixtures of the end-to-end tests: what starts processes, bounds every test, and shows logs when one fails.

Settings come from the environment: `KVROUTE_BIN` (required) is the binary under test; `KVROUTE_FIGURES_DIR`
(optional) is where measurements are written as JSON.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from support import kvroute
from support.kvroute import Engine
from support.process import begin_test, log_tails

_DEADLINE_S = 60


def pytest_configure() -> None:
    # Ends the run as Ctrl-C does, so that fixtures and the exit handler stop every child.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly:
        try:
            kvroute.binary()
        except RuntimeError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Ends a test that waits for something that never comes, wherever it waits; its fixtures included."""
    marker = item.get_closest_marker("deadline")
    seconds = marker.args[0] if marker else _DEADLINE_S

    def expired(_number: int, _frame: FrameType | None) -> None:
        # Not an `Exception`: client libraries catch those and would go on waiting.
        pytest.fail(f"the test took longer than its deadline of {seconds} s")

    begin_test()
    previous = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.extend((f"last lines of {name}", tail) for name, tail in log_tails())
    return report


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    """Three simulated engines of one model, `sim`."""
    directory = tmp_path_factory.mktemp("engines")
    with contextlib.ExitStack() as running:
        started = []
        for number in (1, 2, 3):
            started.append(Engine(directory, f"engine-{number}"))
            running.callback(started[-1].stop)
        yield [engine.wait_ready() for engine in started]
