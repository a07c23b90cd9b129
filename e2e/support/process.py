"""Child processes that never outlive a run and whose logs are there when a test fails.

Each child leads a session of its own, so that stopping it also stops what it started. Every child is known to this
module: `conftest.py` shows the log tails of those that ran during a failed test, stopped ones too (a `with` block has
stopped its children by the time the failure is reported), and whatever is left when the interpreter ends is killed.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from support.waiting import wait_until

_TERM_GRACE_S = 5.0
_TAIL_LINES = 40

_alive: list["Process"] = []
_ran_in_this_test: list["Process"] = []


class Process:
    """A started child with its standard output and error in one log file."""

    def __init__(self, name: str, command: Sequence[str | os.PathLike], log_dir: Path | None = None):
        self.name = name
        self.log_path = Path(log_dir or tempfile.mkdtemp(prefix="kvroute-e2e-")) / f"{name}.log"
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [os.fspath(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _alive.append(self)
        _ran_in_this_test.append(self)

    def log(self) -> str:
        """All it has written so far."""
        return self.log_path.read_text(errors="replace")

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._child.poll() is None

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Waits until `ready` says yes. A child that ends before that is an error at once; with any error it stops."""

        def ready_or_dead() -> bool:
            if not self.is_running():
                raise RuntimeError(f"{self.name} ended with exit code {self._child.returncode} before it was ready")
            return ready()

        try:
            wait_until(f"{self.name} is ready", ready_or_dead, timeout_s)
        except BaseException:
            self.stop()
            raise

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the child itself."""
        self._child.send_signal(number)

    def wait_exit(self, timeout_s: float = 15.0) -> int:
        """Its exit code; negative when a signal ended it."""
        return self._child.wait(timeout_s)

    def kill(self) -> None:
        """Ends it at once, as a crashed machine would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end, and ends it by force when it has not done so within a few seconds."""
        if self.is_running():
            self.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_TERM_GRACE_S)
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        # The group may outlive its leader, so it is signalled also when the leader has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
        self._child.wait(_TERM_GRACE_S)
        if self in _alive:
            _alive.remove(self)


def begin_test() -> None:
    """Forgets the children that ended before; `log_tails` then speaks of the test that begins."""
    _ran_in_this_test[:] = _alive


def log_tails() -> list[tuple[str, str]]:
    """Name and last log lines of every child that ran since `begin_test`, oldest first."""
    return [(child.name, "\n".join(child.log().splitlines()[-_TAIL_LINES:])) for child in _ran_in_this_test]


@atexit.register
def _stop_the_rest() -> None:
    for child in list(_alive):
        with contextlib.suppress(Exception):
            child.kill()
