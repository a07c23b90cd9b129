"""Waiting for a condition, always with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.02


def wait_until(what: str, condition: Callable[[], T], timeout_s: float = 15.0) -> T:
    """Calls `condition` until its answer is truthy and returns that answer.

    `what` completes the sentence "timed out waiting until ..." of the error. An exception from `condition`
    ends the wait at once: conditions for which a refused connection only means "not yet" catch it themselves.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise TimeoutError(f"timed out after {timeout_s:g} s waiting until {what}")
        time.sleep(_POLL_S)
