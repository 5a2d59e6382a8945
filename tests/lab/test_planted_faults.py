"""A gateway that passes bytes on holds what it offers; each fault that is planted in it is found, and called by its name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from lab.planted import Change, PlantedFault, everywhere, planted
from segue.lab.laboratory import check
from segue.lab.scenario import shipped_scenarios
from segue.lab.stage import Stage, open_stage

pytestmark = pytest.mark.timeout(120)
SCENARIOS = {scenario.name: scenario for scenario in shipped_scenarios()}


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[Stage, str]]:
    with open_stage() as (stage, served):
        yield stage, served.base_url


def found(stage: tuple[Stage, str], fault: PlantedFault, *names: str) -> dict[str, set[tuple[str, str]]]:
    """Of each scenario: severity and check of all that was found."""
    with planted(fault, stage[1]) as gateway:
        results = check(gateway, stage[0], [SCENARIOS[name] for name in names])
    assert all(result.outcomes for result in results)
    return {
        result.scenario.name: {
            (finding.severity, finding.check) for outcome in result.outcomes for finding in outcome.findings
        }
        for result in results
    }


def test_a_gateway_that_passes_bytes_on_holds_all_that_it_offers(stage: tuple[Stage, str]) -> None:
    with planted(PlantedFault(), stage[1]) as gateway:
        results = check(gateway, stage[0], SCENARIOS.values())
    wrong = [
        f"{outcome.trial.name}: {finding.says}"
        for result in results
        for outcome in result.outcomes
        for finding in outcome.findings
    ]
    assert wrong == []
    not_offered = {result.scenario.name for result in results if result.verdict == "not offered"}
    assert not_offered == {"A → B → A", "foreign ids", "cancelled call", "repeated ids", "token count"}


def _without_signatures(item: dict[str, Any]) -> None:
    item.pop("thoughtSignature", None)
    item.pop("encrypted_content", None)
    if isinstance(item.get("content"), list):
        item["content"] = [part for part in item["content"] if part.get("type") != "thinking"]


def _one_id(item: dict[str, Any]) -> None:
    if item.get("type") in ("tool_use", "function") and item.get("id"):
        item["id"] = "call_1"
    if item.get("type") == "function_call":
        item["call_id"] = "call_1"
    if "functionCall" in item:
        item["functionCall"]["id"] = "call_1"


def _swapped(body: Any) -> Any:
    """The first two results change places."""
    held: list[tuple[dict[str, Any], str]] = []

    def collect(item: dict[str, Any]) -> None:
        if item.get("role") == "tool" or item.get("type") == "tool_result":
            held.append((item, "content"))
        elif item.get("type") == "function_call_output":
            held.append((item, "output"))
        elif "functionResponse" in item:
            held.append((item["functionResponse"], "response"))

    everywhere(collect)(body)
    if len(held) > 1:
        (one, key), (other, _) = held[:2]
        one[key], other[key] = other[key], one[key]
    return body


def _without_reference(body: Any) -> Any:
    body.pop("previous_response_id", None)
    return body


def _counted_twice(item: dict[str, Any]) -> None:
    for details, total in (
        ("prompt_tokens_details", "prompt_tokens"),
        ("input_tokens_details", "input_tokens"),
    ):
        if isinstance(item.get(details), dict):
            item[total] += item[details]["cached_tokens"]
    if "cache_read_input_tokens" in item:
        item["input_tokens"] += item["cache_read_input_tokens"]
    if "cachedContentTokenCount" in item:
        item["promptTokenCount"] += item["cachedContentTokenCount"]


def _without_pictures(item: dict[str, Any]) -> None:
    for key in ("content", "parts"):
        if isinstance(item.get(key), list):
            item[key] = [
                part
                for part in item[key]
                if not {"image_url", "inlineData", "source"} & {*part} or part.get("text")
            ]


_REQUESTS = itertools.count()


def _stamped(body: Any) -> Any:
    """The time of day in the first message, as some programs write it into their prompt."""
    stamp = f" (request {next(_REQUESTS)})"
    message = next(body[key] for key in ("messages", "contents", "input") if key in body)[0]
    place = message.get("content", message.get("parts"))
    if isinstance(place, list):
        place[0]["text"] += stamp
    else:
        message["content"] += stamp
    return body


_FIRST: list[Any] = []


def _remembering(body: Any) -> Any:
    """The first message of all goes before every later history that does not have it."""
    messages = next(body[key] for key in ("messages", "contents", "input") if key in body)
    text = str(messages[0])
    if "Bergen" in text and "Summary" not in text:
        _FIRST[:] = [messages[0]]
    elif _FIRST:
        messages[0:0] = _FIRST
    return body


def _no_marks(item: dict[str, Any]) -> None:
    item.pop("cache_control", None)


def _short_text(item: dict[str, Any]) -> None:
    for key in ("content", "text"):
        if isinstance(item.get(key), str):
            item[key] = item[key][:-1]


def _other_arguments(item: dict[str, Any]) -> None:
    for key in ("arguments", "partial_json"):
        if isinstance(item.get(key), str):
            item[key] = item[key].replace("Bergen", "Berlin")
    for key in ("input", "args"):
        if isinstance(item.get(key), dict) and "city" in item[key]:
            item[key]["city"] = "Berlin"


def _own_error(body: Any) -> Any:
    return {"detail": "Something went wrong."} if "error" in body else body


REQUESTS: dict[str, tuple[Change, str, set[tuple[str, str]]]] = {
    "drops signatures": (
        everywhere(_without_signatures),
        "thinking in a tool loop",
        {("broken", "accepted")},
    ),
    "swaps results": (_swapped, "parallel tools", {("broken", "pairs")}),
    "loses the reference": (_without_reference, "stored responses", {("broken", "accepted")}),
    "drops pictures": (everywhere(_without_pictures), "image", {("broken", "kept")}),
    "changes what went before": (_stamped, "several turns", {("lost", "prefix")}),
    "brings back what was dropped": (_remembering, "compaction", {("broken", "forgotten")}),
    "drops cache marks": (everywhere(_no_marks), "cache marks", {("lost", "cache marks")}),
}
REPLIES: dict[str, tuple[Change, str, set[tuple[str, str]]]] = {
    "repeats an id": (everywhere(_one_id), "parallel tools", {("broken", "ids")}),
    "counts cached tokens twice": (everywhere(_counted_twice), "usage", {("broken", "usage")}),
    "shortens texts": (everywhere(_short_text), "plain", {("broken", "text")}),
    "changes arguments": (everywhere(_other_arguments), "tool loop", {("broken", "calls")}),
    "has an error of its own": (_own_error, "refused by the provider", {("broken", "envelope")}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_fault_in_requests_is_found(name: str, stage: tuple[Stage, str]) -> None:
    change, scenario, expected = REQUESTS[name]
    assert found(stage, PlantedFault(request=change), scenario) == {scenario: expected}


@pytest.mark.parametrize("name", REPLIES)
def test_a_fault_in_replies_is_found(name: str, stage: tuple[Stage, str]) -> None:
    change, scenario, expected = REPLIES[name]
    assert found(stage, PlantedFault(reply=change), scenario) == {scenario: expected}


def test_a_broken_reply_that_is_given_an_end_is_found(stage: tuple[Stage, str]) -> None:
    checks = found(stage, PlantedFault(ends=True), "stream cut")["stream cut"]
    assert ("broken", "text") in checks


def test_a_provider_that_is_left_writing_is_found(stage: tuple[Stage, str]) -> None:
    fault = PlantedFault(stays=True)
    assert found(stage, fault, "client gone") == {"client gone": {("broken", "hung up")}}
