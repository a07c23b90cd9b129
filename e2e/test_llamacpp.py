"""Four real llama.cpp servers behind the gateway: does a conversation find its cache again?

The engines are the judges: `usage.prompt_tokens_details.cached_tokens` counts the prompt tokens that llama.cpp did
not have to compute again. Both strategies get the same requests in the same order on freshly started servers.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from llama import sessions
from llama.make_model import make_model
from llama.sessions import Turn
from support import http
from support.kvroute import gateway_over
from support.ports import HOST, free_port
from support.process import Process

SERVERS = 4

# llama.cpp caches per slot: one whole sequence each, and a request that resembles no slot overwrites the one used
# longest ago. A slot for every session lets one replica hold them all, however the sessions fall on the replicas,
# so that what is measured is routing and not eviction.
SLOTS = sessions.SESSIONS
SLOT_CONTEXT_TOKENS = 2_048

# Starting four servers twice and playing twice takes about 20 s on two idle cores.
pytestmark = pytest.mark.deadline(180)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Turn]]:
    """The turns played under each strategy."""
    directory = tmp_path_factory.mktemp("llamacpp")
    model = directory / "tiny.gguf"
    make_model(model)
    played = {}
    for strategy in ("round_robin", "prefix_aware"):
        with llama_servers(directory, model, strategy) as urls, gateway_over(directory, urls, strategy) as gateway:
            client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused", max_retries=0, timeout=30)
            played[strategy] = sessions.play(client)
    write_figures(played)
    return played


@contextlib.contextmanager
def llama_servers(directory: Path, model: Path, run: str) -> Iterator[list[str]]:
    """Four servers with empty caches; gives their addresses."""
    script = Path(__file__).parent / "llama" / "server.py"
    with contextlib.ExitStack() as running:
        started = []
        for number in range(1, SERVERS + 1):
            port = free_port()
            command = [sys.executable, script, model, str(port), str(SLOTS), str(SLOT_CONTEXT_TOKENS)]
            started.append((f"http://{HOST}:{port}", Process(f"llama-{run}-{number}", command, directory)))
            running.callback(started[-1][1].stop)
        for url, process in started:
            process.wait_ready(lambda url=url: http.answers_ok(f"{url}/health"))
        yield [url for url, _ in started]


def write_figures(played: dict[str, list[Turn]]) -> None:
    """Leaves the measurements where a report can pick them up, when asked to."""
    if folder := os.environ.get("KVROUTE_FIGURES_DIR"):
        path = Path(folder) / "llamacpp.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        measured = {strategy: sessions.figures(turns) for strategy, turns in played.items()}
        path.write_text(json.dumps(measured, indent=2) + "\n")


def test_both_strategies_were_asked_the_same(runs: dict[str, list[Turn]]) -> None:
    prompts = {strategy: [turn.prompt_tokens for turn in turns] for strategy, turns in runs.items()}
    assert prompts["round_robin"] == prompts["prefix_aware"]
    assert len(prompts["prefix_aware"]) == sessions.SESSIONS * sessions.TURNS


def test_round_robin_uses_every_replica_alike(runs: dict[str, list[Turn]]) -> None:
    counts = sessions.figures(runs["round_robin"])["requests_by_replica"]
    assert len(counts) == SERVERS
    assert max(counts.values()) - min(counts.values()) <= 1, counts


def test_prefix_aware_keeps_every_session_on_its_replica(runs: dict[str, list[Turn]]) -> None:
    homes: dict[int, set[str]] = {}
    for turn in runs["prefix_aware"]:
        homes.setdefault(turn.session, set()).add(turn.replica)
    assert all(len(replicas) == 1 for replicas in homes.values()), homes
    assert len(set.union(*homes.values())) > 1, "all sessions went to one replica"


def test_prefix_aware_reuses_at_least_60_percent_of_the_prompt_tokens(runs: dict[str, list[Turn]]) -> None:
    assert sessions.cached_share(runs["prefix_aware"]) >= 0.60


def test_prefix_aware_reuses_at_least_30_points_more_than_round_robin(runs: dict[str, list[Turn]]) -> None:
    gain = sessions.cached_share(runs["prefix_aware"]) - sessions.cached_share(runs["round_robin"])
    assert gain >= 0.30, f"{gain:.2f}"
