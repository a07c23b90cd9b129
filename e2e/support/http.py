"""Plain HTTP for what is not about a client library: probes, raw bodies, streams read piece by piece."""

import http.client
import urllib.parse
from dataclasses import dataclass

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Answer:
    """A whole response. Header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes


class OpenStream:
    """A response whose body is still arriving; close it, or use it as a context manager."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse):
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = _lower(response)

    def read_line(self) -> bytes:
        """The next line with its end, or nothing at the end of the body."""
        return self._response.readline()

    def read_rest(self) -> bytes:
        """Everything up to the end of the body; raises `http.client.IncompleteRead` when it was cut."""
        return self._response.read()

    def close(self) -> None:
        """Closes the connection, whatever is still on it."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "OpenStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_stream(method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> OpenStream:
    """Sends a request on a connection of its own and returns as soon as the response's head is there."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request(method, parts.path or "/", body=body, headers=headers or {})
        return OpenStream(connection, connection.getresponse())
    except BaseException:
        connection.close()
        raise


def fetch(method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
    """Sends a request and reads the whole response."""
    with open_stream(method, url, body, headers) as stream:
        return Answer(stream.status, stream.headers, stream.read_rest())


def answers_ok(url: str) -> bool:
    """Whether a GET is answered 200 now; nobody listening yet is an ordinary no."""
    try:
        return fetch("GET", url).status == 200
    except (OSError, http.client.HTTPException):
        return False


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
