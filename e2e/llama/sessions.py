"""Multi-turn conversations as a chat client has them, and what the engines say about them.

The prompts are the same for every run, so that two strategies can be compared request by request: the answers that
go into the history are scripted, not those of the random model.
"""

import statistics
import time
from dataclasses import dataclass
from typing import Any

import openai

from support.shapes import prose

# With nine sessions on four replicas a plain rotation moves every session to another replica at every turn: nine
# is one more than a multiple of four, so `round_robin` meets no session again by accident before the fifth turn.
SESSIONS = 9
TURNS = 5

# The first message alone is longer than the prefix that routing looks at, so a session keeps its key at every turn.
FIRST_MESSAGE_CHARACTERS = 6_000
NEXT_MESSAGE_CHARACTERS = 240
ANSWER_CHARACTERS = 60
ANSWER_TOKENS_MAX = 8


@dataclass(frozen=True)
class Turn:
    """One request: who it was for, who served it, and the engine's own count of reused prompt tokens."""

    session: int
    replica: str
    prompt_tokens: int
    cached_tokens: int
    ttft_ms: float


def play(client: openai.OpenAI) -> list[Turn]:
    """Plays all sessions interleaved, turn by turn, one request at a time."""
    histories: list[list[dict[str, str]]] = [[] for _ in range(SESSIONS)]
    turns = []
    for turn in range(TURNS):
        length = NEXT_MESSAGE_CHARACTERS if turn else FIRST_MESSAGE_CHARACTERS
        for session, history in enumerate(histories):
            history.append({"role": "user", "content": prose(f"session {session} asks {turn}", length)})
            turns.append(_ask(client, session, history))
            answer = prose(f"session {session} hears {turn}", ANSWER_CHARACTERS)
            history.append({"role": "assistant", "content": answer})
    return turns


def _ask(client: openai.OpenAI, session: int, messages: list[dict[str, str]]) -> Turn:
    started = time.perf_counter()
    response = client.chat.completions.with_raw_response.create(
        model="tiny",
        messages=messages,
        max_tokens=ANSWER_TOKENS_MAX,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        # The random model would end its turn at a random place.
        extra_body={"ignore_eos": True},
    )
    ttft_ms, usage = None, None
    for chunk in response.parse():
        if ttft_ms is None and any(choice.delta.content for choice in chunk.choices):
            ttft_ms = (time.perf_counter() - started) * 1e3
        usage = chunk.usage or usage
    assert ttft_ms is not None, "the stream carried no content"
    assert usage is not None, "the stream carried no usage"
    return Turn(
        session=session,
        replica=response.headers.get("x-kvroute-replica", ""),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.prompt_tokens_details.cached_tokens,
        ttft_ms=ttft_ms,
    )


def cached_share(turns: list[Turn]) -> float:
    """The part of all prompt tokens that the engines did not compute again, 0 to 1."""
    return sum(turn.cached_tokens for turn in turns) / sum(turn.prompt_tokens for turn in turns)


def figures(turns: list[Turn]) -> dict[str, Any]:
    """What a report says about a run; times are those that the client saw."""
    ttft_ms = [turn.ttft_ms for turn in turns]
    replicas = sorted({turn.replica for turn in turns})
    return {
        "requests": len(turns),
        "prompt_tokens": sum(turn.prompt_tokens for turn in turns),
        "cached_tokens": sum(turn.cached_tokens for turn in turns),
        "cached_share": round(cached_share(turns), 4),
        "ttft_p50_ms": round(statistics.median(ttft_ms), 1),
        "ttft_p90_ms": round(statistics.quantiles(ttft_ms, n=10)[-1], 1),
        "requests_by_replica": {replica: sum(turn.replica == replica for turn in turns) for replica in replicas},
    }
