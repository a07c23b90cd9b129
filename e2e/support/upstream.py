"""A scripted replica: records every request exactly as it came and answers as the test says.

For what a real engine cannot be told to do: fail with a given status, hold a stream open until the test lets it go,
die in the middle of an answer, or say afterwards which bytes it was sent.
"""

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.ports import HOST

_HOLD_MAX_S = 30.0


@dataclass(frozen=True)
class Recorded:
    """One request as the replica got it. `headers` keeps order, duplicates and the case of names."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header that may be there once at most."""
        values = self.header_all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def header_all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Exchange:
    """A request and the means to answer it; a script calls `reply`, or `start` and then the others."""

    def __init__(self, handler: "_Handler", request: Recorded, released: threading.Event):
        self._handler = handler
        self._released = released
        self.request = request

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """A whole answer, JSON unless `headers` says otherwise."""
        self._handler.send_response(status)
        for name, value in ({"content-type": "application/json"} | (headers or {})).items():
            self._handler.send_header(name, value)
        self._handler.send_header("content-length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def start(self, content_type: str = "text/event-stream") -> None:
        """The head of a chunked answer."""
        self._handler.send_response(200)
        self._handler.send_header("content-type", content_type)
        self._handler.send_header("transfer-encoding", "chunked")
        self._handler.end_headers()

    def send(self, piece: bytes) -> None:
        """One chunk."""
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self._handler.wfile.flush()

    def finish(self) -> None:
        """The regular end of a chunked answer."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Closes the connection in the middle of the answer."""
        self._handler.close_connection = True

    def hold(self) -> None:
        """Waits until the test calls `Upstream.release`."""
        assert self._released.wait(_HOLD_MAX_S), "the test never released the held answer"


Script = Callable[[Exchange], None]


class Upstream:
    """A listening scripted replica; a context manager.

    Only POSTs are recorded and scripted. Probes get 200, `/v1/models` lists the model `sim`.
    """

    def __init__(self, script: Script):
        self.script = script
        self.requests: list[Recorded] = []
        self._released = threading.Event()
        self._server = _Server((HOST, 0), _Handler)
        self._server.upstream = self
        self.url = f"http://{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> "Upstream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self) -> None:
        """Lets every held answer go on, now and later."""
        self._released.set()

    def last(self) -> Recorded:
        """The newest request."""
        assert self.requests, "no request reached the replica"
        return self.requests[-1]

    def answer(self, handler: "_Handler", request: Recorded) -> None:
        """Records a request, then runs the script on it."""
        self.requests.append(request)
        self.script(Exchange(handler, request, self._released))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Handlers wait for the next request on connections that the gateway keeps; `server_close` ends those itself.
    block_on_close = False
    upstream: Upstream

    def __init__(self, address: tuple[str, int], handler: type["_Handler"]):
        self._connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self._connections.add(connection)
        return connection, peer

    def shutdown_request(self, request: socket.socket) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stops listening and breaks what is open, as the end of a process does."""
        super().server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Reports what is wrong with a script; that the gateway hung up is part of some tests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:  # noqa: N802, the name is the base class's
        found = {"/health": b"", "/ping": b"", "/v1/models": _MODELS}.get(self.path)
        self.send_response(404 if found is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")

    def do_POST(self) -> None:  # noqa: N802
        self.server.upstream.answer(self, Recorded("POST", self.path, self.headers.items(), self._read_body()))

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def log_message(self, *_: object) -> None:
        """Silent: what came is in `Upstream.requests`."""


_MODEL = {"id": "sim", "object": "model", "created": 0, "owned_by": "e2e"}
_MODELS = json.dumps({"object": "list", "data": [_MODEL]}).encode()


def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Script:
    """A script that always gives the same answer."""
    return lambda exchange: exchange.reply(status, body, headers)


def streaming(pieces: list[bytes], hold_after: int | None = None, cut: bool = False) -> Script:
    """A script that streams `pieces`, waits after the first `hold_after` of them, and then ends or cuts."""

    def script(exchange: Exchange) -> None:
        exchange.start()
        for number, piece in enumerate(pieces):
            if number == hold_after:
                exchange.hold()
            exchange.send(piece)
        if cut:
            exchange.cut()
        else:
            exchange.finish()

    return script
