"""Anthropic's own Python client, pointed at the emulator: it must not notice the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.anthropic.requests import BINDING, TOOL
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say, Think

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.server import Served

anthropic: Any = pytest.importorskip("anthropic", reason="Anthropic's client is not installed")

HI = [{"role": "user", "content": "hi"}]
ASKED = {"model": BINDING, "max_tokens": 1000, "tools": [TOOL]}


@pytest.fixture
def client(segue_emulator_server: Served) -> Iterator[Any]:
    base_url = segue_emulator_server.url("anthropic")
    with anthropic.Anthropic(base_url=base_url, api_key="k", max_retries=0) as made:
        yield made


def script(served: Served, *replies: Reply) -> None:
    responder: Any = served.emulator.responder
    responder.add(*replies)


@pytest.mark.rule("ANT-02", "ANT-51", "ANT-57")
def test_a_tool_turn_with_thinking_whole_and_streamed(segue_emulator_server: Served, client: Any) -> None:
    calls = (Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
    script(
        segue_emulator_server,
        Reply(pieces=(Think("Two lookups."), Say("Checking."), *calls)),
        Reply(pieces=(Think("Mild."), Say("Both are mild."))),
    )
    first = client.messages.create(messages=HI, **ASKED)
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "18"}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages = [*HI, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    with client.messages.stream(messages=messages, **ASKED) as stream:
        assert "".join(stream.text_stream) == "Both are mild."
        second = stream.get_final_message()
    assert (second.stop_reason, second.content[0].type) == ("end_turn", "thinking")
    messages += [{"role": "assistant", "content": second.content}, *HI]
    assert client.messages.create(messages=messages, **ASKED).id.startswith("msg_")
    assert client.messages.count_tokens(model=BINDING, messages=messages, tools=[TOOL]).input_tokens > 100


@pytest.mark.rule("ANT-57")
def test_a_changed_prefix_raises_the_clients_own_error(segue_emulator_server: Served, client: Any) -> None:
    script(segue_emulator_server, Reply(pieces=(Think("Hm."), Say("Yes."))))
    first = client.messages.create(messages=HI, **ASKED)
    messages = [*HI, {"role": "assistant", "content": first.content}, *HI]
    with pytest.raises(anthropic.BadRequestError, match="The `system` prompt differs"):
        client.messages.create(messages=messages, system="New.", **ASKED)


@pytest.mark.rule("ANT-03", "ANT-05")
def test_refusals_raise_the_clients_own_errors(client: Any) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model: nope"):
        client.messages.create(model="nope", max_tokens=10, messages=HI)
    with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
        client.messages.create(messages=HI, extra_body={"temperature": 1}, **ASKED)


@pytest.mark.rule("ANT-75", "ANT-90")
def test_trouble_on_the_servers_side_raises_the_clients_own_errors(
    segue_emulator_server: Served, client: Any
) -> None:
    faults = segue_emulator_server.emulator.faults
    faults.extend([Fault(status=429), Fault(status=529), Fault(kind="error_mid_stream", status=529)])
    with pytest.raises(anthropic.RateLimitError):
        client.messages.create(messages=HI, **ASKED)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        client.messages.create(messages=HI, **ASKED)
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        client.messages.stream(messages=HI, **ASKED) as stream,
    ):
        stream.until_done()


@pytest.mark.rule("ANT-95")
def test_models_are_listed_over_pages(client: Any) -> None:
    names = [model.id for model in client.models.list(limit=3)]
    assert len(names) > 6
    assert len(set(names)) == len(names)
    assert client.models.retrieve(BINDING).id == BINDING
