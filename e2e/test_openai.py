"""The unmodified openai client against the gateway: on `/v1` and on SageMaker's OpenAI-compatible addresses."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from support.kvroute import Engine, Gateway, endpoint, gateway_over
from support.shapes import chat_events, encode, prose
from support.upstream import Upstream, answering, streaming

REPLICAS = ["sim-1", "sim-2", "sim-3"]
BASES = ["/v1", "/endpoints/sim/openai/v1", "/endpoints/sim/inference-components/everywhere/openai/v1"]


@pytest.fixture(scope="module")
def gateway(engines: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One endpoint over three simulated engines, with a component that has a copy on each."""
    everywhere = {"name": "everywhere", "copies": [{"replica": replica} for replica in REPLICAS]}
    urls = [engine.url for engine in engines]
    config = {"endpoints": [endpoint("sim", urls, models=["sim"], components=[everywhere])]}
    with Gateway(tmp_path_factory.mktemp("openai"), config) as running:
        yield running


def client_of(gateway: Gateway, base: str = "/v1") -> openai.OpenAI:
    """The client as any program makes it; errors are wanted at once, so it does not retry."""
    return openai.OpenAI(base_url=gateway.url + base, api_key="unused", max_retries=0, timeout=20)


@pytest.fixture
def client(gateway: Gateway) -> openai.OpenAI:
    return client_of(gateway)


def user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


# ---- answers


@pytest.mark.parametrize("base", BASES)
def test_a_chat_answer_is_whole(gateway: Gateway, base: str) -> None:
    answer = client_of(gateway, base).chat.completions.create(model="sim", messages=user("hello"), max_tokens=5)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 5


@pytest.mark.parametrize("base", BASES)
def test_a_chat_stream_gives_a_chunk_per_token_and_the_usage_when_asked(gateway: Gateway, base: str) -> None:
    stream = client_of(gateway, base).chat.completions.create(
        model="sim", messages=user("hello"), max_tokens=5, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    contents = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert len(contents) == 5
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 5


def test_a_stream_carries_no_usage_when_not_asked(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="sim", messages=user("hello"), max_tokens=2, stream=True))
    assert chunks
    assert all(chunk.usage is None for chunk in chunks)


def test_a_completion_is_whole(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="sim", prompt="once upon a time", max_tokens=4)
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert answer.usage.completion_tokens == 4


def test_a_completion_streams(client: openai.OpenAI) -> None:
    chunks = list(client.completions.create(model="sim", prompt="once upon a time", max_tokens=4, stream=True))
    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].text]) == 4


def test_models_are_listed_once_for_the_whole_fleet(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["sim"]


# ---- routing


def replica_of(client: openai.OpenAI, content: str, **members: object) -> str:
    """Sends a small chat and says which replica served it."""
    raw = client.chat.completions.with_raw_response.create(model="sim", messages=user(content), max_tokens=1, **members)
    return raw.headers["x-kvroute-replica"]


def test_every_answer_names_its_replica_and_the_decision(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="sim", messages=user("hello"), max_tokens=1)
    assert raw.headers["x-kvroute-replica"] in REPLICAS
    assert raw.headers["x-kvroute-decision"]
    assert raw.parse().choices


def test_equal_beginnings_meet_and_different_ones_spread(client: openai.OpenAI) -> None:
    homes = set()
    for document in range(24):
        text = prose(f"document {document}", 1_200)
        asked = {replica_of(client, f"{text} {question}") for question in ("who", "what", "why")}
        assert len(asked) == 1, f"document {document} went to {asked}"
        homes |= asked
    assert homes == set(REPLICAS)


def test_the_engine_reports_cached_tokens_for_a_repeated_beginning(client: openai.OpenAI) -> None:
    text = prose("a document that is asked about twice", 4_000)

    def cached_tokens(question: str) -> int:
        stream = client.chat.completions.create(
            model="sim",
            messages=user(f"{text} {question}"),
            max_tokens=1,
            stream=True,
            stream_options={"include_usage": True},
        )
        usage = list(stream)[-1].usage
        return usage.prompt_tokens_details.cached_tokens

    assert cached_tokens("who is it about") == 0
    # About four characters a token; all but the last block and the question can be reused.
    assert cached_tokens("what happens in it") > 500


def test_prompt_cache_key_keeps_its_users_together_and_apart_from_others(client: openai.OpenAI) -> None:
    text = prose("a document that all tenants share", 1_200)
    homes = set()
    for tenant in range(24):
        asked = {replica_of(client, text, prompt_cache_key=f"tenant-{tenant}") for _ in range(3)}
        assert len(asked) == 1, f"tenant {tenant} went to {asked}"
        homes |= asked
    assert homes == set(REPLICAS)


def test_the_same_prompt_goes_to_the_same_replica_on_every_address(gateway: Gateway) -> None:
    text = prose("a document asked about on every address", 1_200)
    homes = {base: replica_of(client_of(gateway, base), text) for base in BASES[:2]}
    assert len(set(homes.values())) == 1, homes


# ---- errors


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="absent", messages=user("hello"))
    assert "absent" in caught.value.message


@pytest.mark.parametrize(
    "base", ["/endpoints/absent/openai/v1", "/endpoints/sim/inference-components/absent/openai/v1"]
)
def test_an_unknown_endpoint_or_component_is_named_in_the_error(gateway: Gateway, base: str) -> None:
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as caught:
        client_of(gateway, base).chat.completions.create(model="sim", messages=user("hello"))
    assert "absent" in caught.value.message


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_an_error_of_the_engine_arrives_as_it_is(
    tmp_path: Path, status: int, error: type[openai.APIStatusError]
) -> None:
    body = encode({"error": {"message": "the engine says no", "type": "engine", "param": "top_p", "code": "e-7"}})
    with Upstream(answering(status, body)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        with pytest.raises(error) as caught:
            client_of(gateway).chat.completions.create(model="sim", messages=user("hello"))
    assert caught.value.status_code == status
    assert caught.value.response.content == body
    assert (caught.value.param, caught.value.code) == ("top_p", "e-7")


def test_no_replica_alive_is_an_internal_server_error_that_says_so(tmp_path: Path) -> None:
    with Upstream(answering(200, b"{}")) as upstream:
        gateway = gateway_over(tmp_path, [upstream.url]).wait_ready()
    with gateway, pytest.raises(openai.InternalServerError) as caught:
        client_of(gateway).chat.completions.create(model="sim", messages=user("hello"))
    assert caught.value.status_code == 503
    assert "replica" in caught.value.message


def test_a_body_over_the_limit_is_refused_with_413(tmp_path: Path) -> None:
    limits = {"body_bytes_max": 65_536}
    with (
        Upstream(answering(200, b"{}")) as upstream,
        gateway_over(tmp_path, [upstream.url], limits=limits) as gateway,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client_of(gateway).chat.completions.create(model="sim", messages=user("a" * 70_000))
    assert caught.value.status_code == 413
    assert "65536" in caught.value.message
    assert upstream.requests == []


def test_a_replica_that_dies_mid_stream_is_an_error_and_not_a_short_answer(tmp_path: Path) -> None:
    with (
        Upstream(streaming(chat_events("one", "two")[:2], cut=True)) as upstream,
        gateway_over(tmp_path, [upstream.url]) as gateway,
    ):
        stream = client_of(gateway).chat.completions.create(model="sim", messages=user("hello"), stream=True)
        assert next(stream).choices[0].delta.content == "one"
        assert next(stream).choices[0].delta.content == "two"
        with pytest.raises(openai.APIError):
            next(stream)
