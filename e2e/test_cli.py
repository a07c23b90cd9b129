"""The binary as its operator meets it: help, configuration check, probes, reload, drain, and what reaches a replica."""

import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import http as web
from support import kvroute
from support.kvroute import Gateway, endpoint, gateway_over, replicas
from support.shapes import CHAT_ANSWER, chat, chat_events, encode
from support.upstream import Upstream, answering, streaming
from support.waiting import wait_until

JSON = {"content-type": "application/json"}
STREAM = encode(chat("hello", stream=True))


@pytest.fixture
def answerer() -> Iterator[Upstream]:
    """A replica that gives a whole chat answer."""
    with Upstream(answering(200, CHAT_ANSWER)) as upstream:
        yield upstream


@pytest.fixture
def holder() -> Iterator[Upstream]:
    """A replica that streams one event and holds the rest until it is released."""
    with Upstream(streaming(chat_events("one", "two"), hold_after=1)) as upstream:
        yield upstream


def ask(gateway: Gateway, content: str = "hello", **headers: str) -> web.Answer:
    """A small chat request."""
    return web.fetch("POST", f"{gateway.url}/v1/chat/completions", encode(chat(content)), JSON | headers)


def open_held_stream(gateway: Gateway) -> web.OpenStream:
    """A stream of which the first line has arrived and the rest is held."""
    stream = web.open_stream("POST", f"{gateway.url}/v1/chat/completions", STREAM, JSON)
    assert stream.read_line() == chat_events("one")[0].splitlines(keepends=True)[0]
    return stream


# ---- help and check


def test_help_names_the_subcommands() -> None:
    done = kvroute.run("--help")
    assert done.returncode == 0, done.stderr
    for subcommand in ("serve", "check", "engine"):
        assert re.search(rf"^\s+{subcommand}\b", done.stdout, re.MULTILINE), done.stdout


def test_an_unknown_subcommand_is_a_usage_error() -> None:
    done = kvroute.run("serv")
    assert done.returncode == 2
    assert "serve" in done.stderr, "the nearest subcommand is suggested"


def test_check_accepts_a_good_file_and_says_what_it_understood(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(yaml.safe_dump({"endpoints": [endpoint("llama", ["http://127.0.0.1:1", "http://127.0.0.1:2"])]}))
    done = kvroute.run("check", "--config", path)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("llama", "prefix_aware", "llama-1", "llama-2"):
        assert word in done.stdout + done.stderr


BAD_FILE = """\
listen: 127.0.0.1:99999
limits:
  body_bytes_mx: 100
endpoints:
  - name: chat
    routing: {strategy: prefix_awar, prefix_length: 10}
    replicas:
      - {id: a, url: "http://127.0.0.1:8001"}
      - {id: b, url: "ftp://127.0.0.1:8002"}
      - {id: a, url: "http://127.0.0.1:8003"}
"""

# Where each error is reported, as the text that begins there, and what the report says or suggests.
BAD_PLACES = {
    "127.0.0.1:99999": "99999",
    "body_bytes_mx": "body_bytes_max",
    "prefix_awar,": "prefix_aware",
    "10}": "1024",
    '"ftp:': "ftp",
    '{id: a, url: "http://127.0.0.1:8003': "duplicate",
}


def place(text: str) -> str:
    """`:line:column` of a piece of the bad file, both counted from one."""
    before = BAD_FILE[: BAD_FILE.index(text)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f":{line}:{column}"


def test_check_reports_every_error_of_a_bad_file_at_once_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD_FILE)
    done = kvroute.run("check", "--config", path)
    assert done.returncode not in (0, 101), "an error, and not a panic"
    said = done.stdout + done.stderr
    for text, word in BAD_PLACES.items():
        assert f"bad.yaml{place(text)}" in said, f"{text}\n{said}"
        assert word in said


def test_check_of_a_missing_file_names_the_file(tmp_path: Path) -> None:
    done = kvroute.run("check", "--config", tmp_path / "absent.yaml")
    assert done.returncode not in (0, 101)
    assert "absent.yaml" in done.stdout + done.stderr


def test_serve_refuses_a_bad_file_as_check_does(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD_FILE)
    done = kvroute.run("serve", "--config", path)
    assert done.returncode not in (0, 101)
    assert f"bad.yaml{place('prefix_awar,')}" in done.stdout + done.stderr


# ---- probes


def test_probes_answer_on_both_ports(tmp_path: Path, answerer: Upstream) -> None:
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        for path in ("/health", "/livez", "/readyz", "/ping"):
            assert web.fetch("GET", gateway.url + path).status == 200, path
        metrics = web.fetch("GET", f"{gateway.admin_url}/metrics")
        assert metrics.status == 200
        assert b"kvroute_" in metrics.body


def in_flight(gateway: Gateway) -> int:
    """Requests that the gateway counts as being on a replica now."""
    page = web.fetch("GET", f"{gateway.admin_url}/metrics").body.decode()
    values = re.findall(r"^kvroute_replica_in_flight_requests\{.*\} (\S+)$", page, re.MULTILINE)
    assert values, "the page lacks the gauge"
    return sum(int(float(value)) for value in values)


def test_the_in_flight_count_is_true_and_returns_to_zero_however_a_request_ends(
    tmp_path: Path, answerer: Upstream, holder: Upstream
) -> None:
    with Upstream(streaming(chat_events("one"), cut=True)) as cutter:
        urls = [answerer.url, holder.url, cutter.url]
        with gateway_over(tmp_path, urls, "round_robin") as gateway:
            streams = [web.open_stream("POST", f"{gateway.url}/v1/chat/completions", STREAM, JSON) for _ in urls]
            wait_until("only the held stream is in flight", lambda: in_flight(gateway) == 1)
            for stream in streams:
                stream.close()
            # The holder has not been released: what ends its request is that the client left.
            wait_until("nothing is in flight", lambda: in_flight(gateway) == 0)


# ---- reload


def test_reload_adds_a_replica_and_keeps_the_open_stream(tmp_path: Path, holder: Upstream, answerer: Upstream) -> None:
    both = endpoint("chat", [holder.url, answerer.url], "round_robin")
    with (
        gateway_over(tmp_path, [holder.url], "round_robin") as gateway,
        open_held_stream(gateway) as stream,
    ):
        gateway.write_config({"endpoints": [both]})
        gateway.reload()

        def reached_the_new_replica() -> bool:
            # A request that goes to the replica that holds would wait; it need only be sent, not answered.
            with web.open_stream("POST", f"{gateway.url}/v1/chat/completions", STREAM, JSON) as probe:
                return probe.headers["x-kvroute-replica"] == "chat-2"

        wait_until("the added replica serves", reached_the_new_replica)
        holder.release()
        assert stream.read_rest().endswith(b"data: [DONE]\n\n")


def test_reload_of_a_bad_file_keeps_the_old_configuration_and_says_why(tmp_path: Path, answerer: Upstream) -> None:
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        gateway.write_config({"endpoints": [endpoint("chat", [answerer.url], "sideways")]})
        gateway.reload()
        wait_until("the log names the bad value", lambda: "sideways" in gateway.process.log())
        assert gateway.process.is_running()
        assert ask(gateway).status == 200


# ---- drain


def test_sigterm_lets_the_open_stream_finish_and_refuses_new_connections(tmp_path: Path, holder: Upstream) -> None:
    with gateway_over(tmp_path, [holder.url]) as gateway:
        with open_held_stream(gateway) as stream:
            gateway.process.send_signal(signal.SIGTERM)
            wait_until("new connections are refused", lambda: is_refused(gateway))
            assert gateway.process.is_running(), "it left before its stream ended"
            holder.release()
            assert stream.read_rest().endswith(b"data: [DONE]\n\n")
        assert gateway.process.wait_exit() == 0


def is_refused(gateway: Gateway) -> bool:
    """Whether the data port takes no new connection."""
    try:
        web.fetch("GET", f"{gateway.url}/livez")
    except (ConnectionError, http.client.RemoteDisconnected):
        return True
    return False


def test_sigterm_without_work_ends_at_once(tmp_path: Path, answerer: Upstream) -> None:
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        assert ask(gateway).status == 200
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait_exit(timeout_s=5) == 0


# ---- what reaches the replica

# Everything that a parse and re-serialise would lose: unknown members at three depths, members given twice, escapes
# that have a shorter spelling, numbers beyond a double, blanks of every kind before, inside and after.
ODD_BODY = (
    b' \r\n{ "model" :"sim",\t"temperature": 1.0E+0, "temperature":0.70,\n'
    b'  "messages":[ {"role":"user","content":"caf\\u00e9 \\/ \xc3\xa9","x_note":{"deep":[1 , 2,{ }]}}, '
    b'{"content":"last","role":"user", "role":"user"} ],\n\n'
    b'  "tools":[{"type":"function","function":{"name":"ping","x_new":null}}],'
    b' "chat_template_kwargs":{"enable_thinking":false},"seed":12345678901234567890123, "":[] }\n \t'
)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/endpoints/chat/openai/v1/chat/completions", "/endpoints/chat/invocations"]
)
def test_the_body_arrives_byte_for_byte(tmp_path: Path, answerer: Upstream, path: str) -> None:
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        answer = web.fetch("POST", gateway.url + path, ODD_BODY, JSON)
    assert answer.status == 200
    assert answer.body == CHAT_ANSWER
    assert answerer.last().body == ODD_BODY
    assert answerer.last().header_all("content-length") == [str(len(ODD_BODY))]


def test_an_event_stream_comes_back_byte_for_byte(tmp_path: Path) -> None:
    pieces = [b": note\r\n\r\n", b'data: {"choices":[]', b" }\n", b"\ndata:[DONE]\n\n", b"\xff tail without an end"]
    with Upstream(streaming(pieces)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        answer = web.fetch("POST", f"{gateway.url}/v1/chat/completions", STREAM, JSON)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.body == b"".join(pieces)


def test_a_replica_gets_its_own_key_and_not_the_clients(tmp_path: Path, answerer: Upstream) -> None:
    keyed = replicas("chat", [answerer.url])
    keyed[0]["api_key"] = "replica-key"
    config = {"endpoints": [endpoint("chat", [], replicas=keyed)]}
    with Gateway(tmp_path, config) as gateway:
        ask(gateway, authorization="Bearer client-key")
        shown = gateway.process.log()
    assert answerer.last().header_all("authorization") == ["Bearer replica-key"]
    assert "replica-key" not in shown
    assert "client-key" not in shown


def test_without_a_replica_key_no_authorization_reaches_the_replica(tmp_path: Path, answerer: Upstream) -> None:
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        ask(gateway, authorization="Bearer client-key")
    assert answerer.last().header_all("authorization") == []


def test_prompt_text_is_in_no_log_and_no_metric(tmp_path: Path, answerer: Upstream) -> None:
    secret = "unmistakable-prompt-words"
    with gateway_over(tmp_path, [answerer.url]) as gateway:
        ask(gateway, secret)
        metrics = web.fetch("GET", f"{gateway.admin_url}/metrics").body.decode()
        shown = gateway.process.log()
    assert json.loads(answerer.last().body)["messages"][0]["content"] == secret
    assert secret not in metrics
    assert secret not in shown
