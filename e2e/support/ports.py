"""Free loopback ports.

A process that is told its port on the command line can lose a race for it: between our look and its bind, the
kernel may hand the same number to an outgoing connection. So ports are taken from below the range that the kernel
uses for outgoing connections, each at most once in a run, starting at a place that differs from run to run.
"""

import itertools
import os
import socket

HOST = "127.0.0.1"
_FIRST, _COUNT = 20_000, 12_000
_numbers = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """A port on which nothing listens now and which this run has not handed out before."""
    for number in itertools.islice(_numbers, _COUNT):
        port = _FIRST + number % _COUNT
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port on {HOST} from {_FIRST} on")
