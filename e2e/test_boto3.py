"""The unmodified AWS SDK against the gateway: `sagemaker-runtime` with nothing but another `endpoint_url`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from support.kvroute import Engine, Gateway, endpoint, gateway_over, replicas
from support.shapes import CHAT_ANSWER, chat, chat_events, encode, prose
from support.upstream import Upstream, answering, streaming

JSON = "application/json"


def runtime(gateway: Gateway) -> BaseClient:
    """The client as any program makes it; errors are wanted at once, so it does not retry."""
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=gateway.url,
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20, connect_timeout=5),
    )


@pytest.fixture(scope="module")
def client(engines: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseClient]:
    """Three simulated engines, seen as an endpoint with replicas, one with variants, and one with components."""
    urls = [engine.url for engine in engines]
    variants = [
        {"name": "blue", "weight": 1.0, "replicas": replicas("blue", urls[:2])},
        {"name": "green", "weight": 0.0, "replicas": replicas("green", urls[2:])},
    ]
    components = [
        {"name": "summarise", "copies": [{"replica": "shared-1"}, {"replica": "shared-2"}]},
        {"name": "translate", "copies": [{"replica": "shared-3"}]},
    ]
    split = {"name": "split", "routing": {"strategy": "random"}, "variants": variants}
    config = {"endpoints": [endpoint("chat", urls), split, endpoint("shared", urls, components=components)]}
    with Gateway(tmp_path_factory.mktemp("boto3"), config) as gateway:
        yield runtime(gateway)


Response = dict[str, Any]


def invoke(client: BaseClient, body: dict[str, Any], endpoint_name: str = "chat", **parameters: str) -> Response:
    """`InvokeEndpoint` with a JSON body."""
    return client.invoke_endpoint(EndpointName=endpoint_name, ContentType=JSON, Body=encode(body), **parameters)


def invoke_stream(client: BaseClient, body: dict[str, Any], endpoint_name: str = "chat", **parameters: str) -> Response:
    """`InvokeEndpointWithResponseStream` with a JSON body."""
    return client.invoke_endpoint_with_response_stream(
        EndpointName=endpoint_name, ContentType=JSON, Body=encode(body), **parameters
    )


def joined(response: Response) -> bytes:
    """The bytes of all payload parts; raises what the stream raises."""
    return b"".join(event["PayloadPart"]["Bytes"] for event in response["Body"])


def replica_of(response: Response) -> str:
    """Which replica served it."""
    return response["ResponseMetadata"]["HTTPHeaders"]["x-kvroute-replica"]


def completion(prompt: str, **members: Any) -> dict[str, Any]:
    return {"prompt": prompt, "model": "sim"} | members


# ---- answers


@pytest.mark.parametrize(
    ("body", "kind"),
    [(chat("hello", max_tokens=3), "chat.completion"), (completion("hello", max_tokens=3), "text_completion")],
    ids=["chat", "completion"],
)
def test_invoke_endpoint_answers_what_the_body_asks(client: BaseClient, body: dict[str, Any], kind: str) -> None:
    response = invoke(client, body)
    answer = json.loads(response["Body"].read())
    assert answer["object"] == kind
    assert answer["usage"]["completion_tokens"] == 3
    assert response["ContentType"].startswith(JSON)
    assert response["InvokedProductionVariant"] == "main"


@pytest.mark.parametrize(
    "body",
    [chat("hello", max_tokens=3, stream=True), completion("hello", max_tokens=3, stream=True)],
    ids=["chat", "completion"],
)
def test_a_response_stream_carries_the_event_stream_of_the_engine(client: BaseClient, body: dict[str, Any]) -> None:
    response = invoke_stream(client, body)
    assert response["ContentType"].startswith("text/event-stream")
    assert response["InvokedProductionVariant"] == "main"
    lines = joined(response).decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    contents = [choice.get("text") or choice.get("delta", {}).get("content") for choice in choices]
    assert len([content for content in contents if content]) == 3


def test_the_joined_payload_parts_are_the_replicas_bytes(tmp_path: Path) -> None:
    whole = b"".join(chat_events("one", "two", "three"))
    # Cut inside events and inside a line end, as a network does.
    pieces = [whole[start : start + 97] for start in range(0, len(whole), 97)]
    with Upstream(streaming(pieces)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        assert joined(invoke_stream(runtime(gateway), chat("hello", stream=True))) == whole


def test_a_body_without_content_type_is_served(client: BaseClient) -> None:
    response = client.invoke_endpoint(EndpointName="chat", Body=encode(chat("hello", max_tokens=1)))
    assert json.loads(response["Body"].read())["object"] == "chat.completion"


# ---- routing


def test_equal_prefixes_meet_and_different_ones_spread(client: BaseClient) -> None:
    homes = set()
    for document in range(24):
        text = prose(f"document {document}", 1_200)
        asked = {replica_of(invoke(client, chat(f"{text} {question}", max_tokens=1))) for question in ("who", "why")}
        streamed = invoke_stream(client, chat(f"{text} when", max_tokens=1, stream=True))
        joined(streamed)
        asked.add(replica_of(streamed))
        assert len(asked) == 1, f"document {document} went to {asked}"
        homes |= asked
    assert homes == {"chat-1", "chat-2", "chat-3"}


def test_prefix_aware_id_keeps_its_users_together_and_apart_from_others(client: BaseClient) -> None:
    body = chat(prose("a document that all tenants share", 1_200), max_tokens=1)
    homes = set()
    for tenant in range(24):
        asked = {replica_of(invoke(client, body, PrefixAwareId=f"tenant {tenant}")) for _ in range(2)}
        assert len(asked) == 1, f"tenant {tenant} went to {asked}"
        homes |= asked
    assert homes == {"chat-1", "chat-2", "chat-3"}


@pytest.mark.parametrize("variant", ["blue", "green"])
def test_target_variant_beats_the_weights(client: BaseClient, variant: str) -> None:
    for _ in range(5):
        response = invoke(client, chat("hello", max_tokens=1), "split", TargetVariant=variant)
        assert response["InvokedProductionVariant"] == variant
        assert replica_of(response).startswith(variant)


def test_without_target_variant_a_variant_of_weight_zero_gets_nothing(client: BaseClient) -> None:
    responses = [invoke(client, chat(f"hello {number}", max_tokens=1), "split") for number in range(10)]
    assert {response["InvokedProductionVariant"] for response in responses} == {"blue"}


def test_inference_component_name_chooses_among_its_copies(client: BaseClient) -> None:
    def homes(component: str) -> set[str]:
        bodies = [chat(prose(f"page {number}", 1_200), max_tokens=1) for number in range(16)]
        return {replica_of(invoke(client, body, "shared", InferenceComponentName=component)) for body in bodies}

    assert homes("summarise") == {"shared-1", "shared-2"}
    assert homes("translate") == {"shared-3"}


# ---- headers


def test_custom_attributes_go_to_the_replica_and_its_own_come_back(tmp_path: Path) -> None:
    script = answering(200, CHAT_ANSWER, {"x-amzn-sagemaker-custom-attributes": "from=replica"})
    with Upstream(script) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        response = invoke(runtime(gateway), chat("hello"), CustomAttributes="trace=abc; c0f9", InferenceId="call 7")
    assert response["CustomAttributes"] == "from=replica"
    assert upstream.last().header("x-amzn-sagemaker-custom-attributes") == "trace=abc; c0f9"


def test_the_callers_signature_stays_here_and_the_body_arrives_unchanged(tmp_path: Path) -> None:
    body = b'{ "messages":[{"content":"hello","role":"user"}],\n "x_unknown":{"deep":[1.0 , null]}}  '
    with Upstream(answering(200, CHAT_ANSWER)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        assert runtime(gateway).invoke_endpoint(EndpointName="chat", Body=body)["Body"].read() == CHAT_ANSWER
    assert upstream.last().body == body
    assert upstream.last().header_all("authorization") == []


def test_an_adapters_component_reaches_the_base_copy_under_the_adapters_name(tmp_path: Path) -> None:
    with Upstream(answering(200, CHAT_ANSWER)) as upstream:
        config = endpoint(
            "chat",
            [],
            replicas=replicas("chat", [upstream.url], api="sagemaker"),
            components=[{"name": "base", "copies": [{"replica": "chat-1"}]}],
            adapters=[{"name": "lora1", "component": "lora1-component", "base": "base"}],
        )
        with Gateway(tmp_path, {"endpoints": [config]}) as gateway:
            invoke(runtime(gateway), chat("hello"), InferenceComponentName="lora1-component")
            assert upstream.last().path == "/invocations"
            assert upstream.last().header("x-amzn-sagemaker-adapter-identifier") == "lora1"
            invoke(runtime(gateway), chat("hello"), InferenceComponentName="base")
            assert upstream.last().header("x-amzn-sagemaker-adapter-identifier") is None


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("PrefixAwareId", "a" * 65),
        ("InferenceId", "a" * 65),
        ("CustomAttributes", "a" * 1_025),
        ("TargetVariant", "not a name"),
        ("InferenceComponentName", "-starts-with-a-dash"),
    ],
)
def test_a_parameter_outside_its_rule_is_a_validation_error(client: BaseClient, parameter: str, value: str) -> None:
    with pytest.raises(ClientError) as caught:
        invoke(client, chat("hello", max_tokens=1), **{parameter: value})
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    assert status_of(caught.value) == 400


# ---- errors

Call = Callable[..., Response]


def status_of(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("endpoint_name", "parameters"),
    [
        ("absent", {}),
        ("split", {"TargetVariant": "absent"}),
        ("shared", {"InferenceComponentName": "absent"}),
    ],
    ids=["endpoint", "variant", "component"],
)
@pytest.mark.parametrize("call", [invoke, invoke_stream])
def test_an_unknown_name_is_a_validation_error(
    client: BaseClient, call: Call, endpoint_name: str, parameters: dict[str, str]
) -> None:
    with pytest.raises(ClientError) as caught:
        call(client, chat("hello", max_tokens=1), endpoint_name, **parameters)
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    assert "absent" in caught.value.response["Error"]["Message"]


@pytest.mark.parametrize("status", [400, 404, 422, 500])
@pytest.mark.parametrize("call", [invoke, invoke_stream])
def test_an_error_of_the_engine_is_a_model_error_with_its_status(tmp_path: Path, call: Call, status: int) -> None:
    # `code` in the body would be taken for the error's name by the SDK, were the body passed on as it is.
    body = encode({"error": {"message": "the engine says no", "code": 7}, "code": "NotThisOne"})
    with Upstream(answering(status, body)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        with pytest.raises(ClientError) as caught:
            call(runtime(gateway), chat("hello"))
    response = caught.value.response
    assert response["Error"]["Code"] == "ModelError"
    assert status_of(caught.value) == 424
    assert response["OriginalStatusCode"] == status
    assert "the engine says no" in response["OriginalMessage"]


@pytest.mark.parametrize("call", [invoke, invoke_stream])
def test_no_replica_alive_is_service_unavailable(tmp_path: Path, call: Call) -> None:
    with Upstream(answering(200, CHAT_ANSWER)) as upstream:
        gateway = gateway_over(tmp_path, [upstream.url]).wait_ready()
    with gateway, pytest.raises(ClientError) as caught:
        call(runtime(gateway), chat("hello"))
    assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert status_of(caught.value) == 503


def test_a_body_over_the_limit_is_a_validation_error(tmp_path: Path) -> None:
    limits = {"body_bytes_max": 65_536}
    with (
        Upstream(answering(200, CHAT_ANSWER)) as upstream,
        gateway_over(tmp_path, [upstream.url], limits=limits) as gateway,
    ):
        assert invoke(runtime(gateway), chat("a" * 60_000))["Body"].read() == CHAT_ANSWER
        with pytest.raises(ClientError) as caught:
            invoke(runtime(gateway), chat("a" * 70_000))
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    assert "65536" in caught.value.response["Error"]["Message"]
    assert len(upstream.requests) == 1


# ---- broken streams


def test_an_engine_killed_mid_stream_is_a_model_stream_error(tmp_path: Path) -> None:
    body = chat("hello", max_tokens=2_000, stream=True, ignore_eos=True)
    with Engine(tmp_path, "doomed", speed=1.0) as engine, gateway_over(tmp_path, [engine.url]) as gateway:
        events = iter(invoke_stream(runtime(gateway), body)["Body"])
        assert next(events)["PayloadPart"]["Bytes"].startswith(b"data: ")
        engine.process.kill()
        with pytest.raises(EventStreamError) as caught:
            list(events)
    assert caught.value.response["Error"]["Code"] == "ModelStreamError"


def test_an_answer_cut_short_is_a_model_stream_error_after_all_its_bytes(tmp_path: Path) -> None:
    pieces = chat_events("one", "two")[:2]
    received = b""
    with Upstream(streaming(pieces, cut=True)) as upstream, gateway_over(tmp_path, [upstream.url]) as gateway:
        with pytest.raises(EventStreamError) as caught:
            for event in invoke_stream(runtime(gateway), chat("hello", stream=True))["Body"]:
                received += event["PayloadPart"]["Bytes"]
    assert caught.value.response["Error"]["Code"] == "ModelStreamError"
    assert received == b"".join(pieces)
