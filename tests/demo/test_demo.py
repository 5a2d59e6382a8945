"""The demo keeps its promises: every wire accepts the story, and most refuse its history unrepaired."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from segue.cli.commands.demo import show
from segue.conversation.blocks import Reasoning, ToolResult
from segue.demo.play import DemoResult, play
from segue.demo.screen import WIDTH, DemoScreen
from segue.demo.story import Shop, Story, read_story
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.model.model_facts import listed
from segue.providers.models.cards import card_for_model
from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool


def plain(_: str, text: str) -> str:
    return text


@pytest.fixture(scope="module")
def shown() -> tuple[DemoResult, str]:
    """One whole run, and what it wrote."""
    written: list[str] = []
    outcome = play(read_story(), DemoScreen(written.append, plain))
    return outcome, "".join(written)


@pytest.fixture
def outcome(shown: tuple[DemoResult, str]) -> DemoResult:
    return shown[0]


@pytest.fixture
def text(shown: tuple[DemoResult, str]) -> str:
    return shown[1]


def asked(outcome: DemoResult, provider: str, path: str = "") -> list[dict[str, Any]]:
    """The bodies of the story's requests to a provider, in order."""
    return [
        entry.body
        for entry in outcome.rendered
        if entry.provider == provider and entry.verdict == "accepted" and path in entry.path
    ]


def signatures(body: dict[str, Any]) -> list[str]:
    blocks = (block for message in body["messages"] for block in message["content"])
    return [block["signature"] for block in blocks if isinstance(block, dict) and block["type"] == "thinking"]


def test_every_wire_accepts_every_request_of_the_story(outcome: DemoResult) -> None:
    verdicts = [entry.verdict for entry in outcome.rendered]
    assert set(verdicts) == {"accepted", "fault"}
    assert verdicts.count("fault") == 1, "the failover"
    assert outcome.well
    assert (outcome.accepted, outcome.sent, outcome.wires) == (18, 18, 7)


def test_the_story_goes_from_wire_to_wire_and_back_to_where_it_thought(outcome: DemoResult) -> None:
    stations: list[str] = []
    for entry in outcome.rendered:
        station = "responses" if "responses" in entry.path else entry.provider
        if entry.verdict == "accepted" and stations[-1:] != [station]:
            stations.append(station)
    assert stations == [
        "openai", "anthropic", "gemini", "mistral", "kimi", "ollama", "responses", "anthropic", "ollama",
    ]  # fmt: skip


def test_the_return_replays_the_signatures_that_were_issued_there(outcome: DemoResult) -> None:
    first, second, back, _ = asked(outcome, "anthropic")
    issued = [
        block.seal.payload
        for message in outcome.conversation.messages
        for block in message.blocks
        if type(block) is Reasoning and block.seal and block.seal.origin.dialect == "anthropic"
    ]
    assert signatures(first) == []
    assert signatures(second) == issued[:1]
    assert signatures(back) == issued[:2]
    assert len(issued) == 3, "and the last answer was thought about as well"


def test_the_return_says_the_first_part_exactly_as_before(outcome: DemoResult) -> None:
    _, second, back, _ = asked(outcome, "anthropic")
    assert back["messages"][: len(second["messages"])] == second["messages"]
    assert back["system"] == second["system"]
    assert back["tools"] == second["tools"]


def test_no_seal_reaches_a_stranger(outcome: DemoResult) -> None:
    for message in outcome.conversation.messages:
        for block in message.blocks:
            seal = getattr(block, "seal", None)
            if seal is None:
                continue
            strangers = [entry for entry in outcome.rendered if entry.provider != seal.origin.provider]
            assert not any(seal.payload in str(entry.body) for entry in strangers)


def test_the_user_cancels_while_probes_run_and_one_of_them_is_done(outcome: DemoResult) -> None:
    probes = [
        block
        for message in outcome.conversation.messages
        for block in message.blocks
        if type(block) is ToolResult and block.name == "probe"
    ]
    reasons = [block.reason for block in probes[:5]]
    assert reasons == [None, *["cancelled_by_user"] * 4]
    assert probes[0].output == {"ms": 2390}


def test_the_interrupted_calls_are_closed_for_everyone_who_comes_after(outcome: DemoResult) -> None:
    results = [message for message in asked(outcome, "mistral")[0]["messages"] if message["role"] == "tool"]
    closed = [result for result in results if result["name"] == "probe"]
    assert len(closed) == 5
    assert sum("2390" in str(result["content"]) for result in closed) == 1


def test_whoever_spoke_last_sums_up_for_the_small_window(outcome: DemoResult) -> None:
    summing_up = asked(outcome, "anthropic")[-1]
    assert "tools" not in summing_up
    assert "USER: Checkout has been slow since two" in str(summing_up["messages"])
    first, _ = asked(outcome, "ollama")[-2:]
    told = str(first["messages"])
    assert "What they said, summed up:" in told
    assert "Checkout slowed down from 180 to 2400 ms at 13:58" in told
    assert "probe all five regions" not in told


def test_what_is_kept_of_a_compacted_history_is_in_pairs(outcome: DemoResult) -> None:
    for body in asked(outcome, "ollama")[-2:]:
        calls = sum(len(message.get("tool_calls", ())) for message in body["messages"])
        assert calls == sum(message["role"] == "tool" for message in body["messages"])


def test_whoever_can_see_gets_the_image_and_the_other_a_description(outcome: DemoResult, text: str) -> None:
    to_the_blind = asked(outcome, "ollama")[0]["messages"]
    assert not any("images" in message for message in to_the_blind)
    assert "latency.png" in str(to_the_blind)
    for body in (asked(outcome, "openai")[0], asked(outcome, "anthropic")[2]):
        assert "iVBORw0KGgo" in str(body)
    assert "1 image described in words" in text


REFUSALS = {
    "CHAT-10": "must be followed by tool messages responding to each 'tool_call_id'",
    "ANT-25": "String should match pattern '^[a-zA-Z0-9_-]+$'",
    "GEM-04": "number of function response parts is equal to the number of function call parts",
    "MIS-08": "Extra inputs are not permitted",
    "KIM-05": "must be followed by tool messages responding to each 'tool_call_id'",
    "RESP-46": "could not be verified",
}
"""Rules of the rulebooks that the history breaks, one for each wire that looks, and their words."""


def test_the_same_history_unrepaired_is_refused_in_the_providers_words(outcome: DemoResult) -> None:
    refused = {entry.rule: entry for entry in outcome.unrepaired if entry.verdict == "refused"}
    assert len(outcome.unrepaired) == 7
    assert set(refused) == set(REFUSALS)
    for rule, words in REFUSALS.items():
        assert refused[rule].status in (400, 422)
        assert words in str(refused[rule].message)


def test_what_happens_is_told_turn_by_turn(text: str) -> None:
    assert re.findall(r"^(\d)  ([\w ]+) ·", text, re.MULTILINE) == [
        ("1", "OpenAI Chat"),
        ("2", "Anthropic"),
        ("3", "Gemini"),
        ("4", "Gemini"),
        ("5", "Kimi"),
        ("6", "Ollama"),
        ("7", "OpenAI Responses"),
        ("8", "Anthropic"),
        ("9", "Ollama"),
    ]
    assert "→ Mistral · " in text
    assert "503 The model is overloaded." in text
    assert text.count("→ interrupted by the user") == 4
    assert "2 signatures of its own, byte for byte; the signed prefix is unchanged" in text
    assert re.search(r"compacts \d+ tokens to \d+, to fit this model: claude-opus-5-5 wrote a summary", text)
    assert re.search(r"provider 2 requests accepted · \d+ of \d+ tokens cached", text)


def test_what_is_written_fits_on_a_page_and_ends_with_two_lines(text: str) -> None:
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) < 120
    assert not any(line != line.rstrip() for line in lines)
    assert lines[-3:] == [
        "",
        "With segue: 18 of 18 requests accepted, on 7 of 7 wire formats.",
        "Without it: 6 of 7 refused the same history.",
    ]


def test_the_page_about_the_demo_shows_what_it_writes(text: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text("utf-8")
    port = re.compile(r"127\.0\.0\.1:\d+")
    # A seal is different in every run, so what a refusal quotes of it differs too.
    quoted = re.compile(r"content \S+ could")
    told = quoted.sub("", port.sub("", text))
    assert told in quoted.sub("", port.sub("", page)), "docs/demo.md: paste what segue demo writes now"


def spoilt(*faults: Fault) -> Story:
    """The story with misfortunes in its first turn, where nobody else takes over."""
    story = read_story()
    turn = structs.replace(story.turns[0], faults=faults)
    return structs.replace(story, turns=(turn, *story.turns[1:]))


def refusal(status: int) -> Fault:
    return Fault(status=status, provider="openai", retry_after=None)


@pytest.mark.parametrize(("status", "times"), [(400, 1), (401, 1), (503, 3)])
def test_a_refused_hop_makes_the_exit_code_non_zero(
    status: int, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(spoilt(*[refusal(status)] * times), fast=True) == 1
    told = capsys.readouterr().out
    assert f"refused  {status} " in told
    assert "With segue: 0 of 1 requests accepted." in told
    assert "The same history without segue" not in told


def test_a_provider_that_is_overloaded_for_a_moment_is_asked_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show(spoilt(refusal(503)), fast=True) == 0
    told = capsys.readouterr().out
    assert re.search(r"error    503 .*\s+Retrying\.", told)
    assert "With segue: 18 of 18" in told


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "segue", "demo", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_command_ends_well_and_by_itself_and_is_plain_when_piped() -> None:
    started = time.monotonic()
    ended = demo(PYTHONIOENCODING="utf-8")
    assert ended.returncode == 0, ended.stderr
    assert time.monotonic() - started < 30
    assert "\x1b" not in ended.stdout
    assert ended.stderr == ""
    assert ended.stdout.endswith("Without it: 6 of 7 refused the same history.\n")


def test_a_terminal_without_arrows_does_not_end_the_demo() -> None:
    ended = demo(PYTHONIOENCODING="ascii")
    assert ended.returncode == 0, ended.stderr
    assert "latency(checkout)      ? {" in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal is made the Unix way")
@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_it_wants_none(environment: dict[str, str], coloured: bool) -> None:
    import pty

    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-m", "segue", "demo", "--fast"],
        env={**kept, "TERM": "xterm", "COLUMNS": "100", **environment},
        stdout=theirs,
    ) as running:
        os.close(theirs)
        seen = b""
        while portion := _portion(ours):
            seen += portion
        os.close(ours)
        assert running.wait(30) == 0
    assert (re.search(rb"\x1b\[[0-9;]*[349][0-7]m", seen) is not None) is coloured
    assert b"With segue: 18 of 18" in seen


def _portion(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux says so when the other side has gone
        return b""


def test_the_story_names_models_that_both_sides_know() -> None:
    for wire in read_story().wires.values():
        assert wire.model in listed(wire.provider)
        assert card_for_model(wire.model, wire.dialect) != UNKNOWN
        assert wire.dialect in DIALECTS


def test_the_signatures_of_the_model_it_comes_back_to_are_bound_to_their_prefix() -> None:
    wire = read_story().wires["anthropic"]
    assert card_for_model(wire.model, wire.dialect).bound_seals


@pytest.mark.parametrize(("name", "arguments"), [("latency", {"service": "moon"}), ("probe", {"x": 1})])
def test_a_tool_that_fails_says_so_in_its_result(name: str, arguments: dict[str, Any]) -> None:
    tools = {tool.name: tool for tool in map(as_tool, Shop().tools)}
    assert asyncio.run(run_tool(tools[name], arguments)).error


def test_every_tool_and_its_parameter_is_explained_to_the_model() -> None:
    for spec in Shop().specs:
        assert spec.description
        assert spec.parameters is not None
        assert all(told["description"] for told in spec.parameters["properties"].values())
