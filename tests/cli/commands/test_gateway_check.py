"""`segue gateway check`: a gateway at an address, and one that it starts itself."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cli.cli_runs import Here
from lab.planted import MODELS, PlantedFault, everywhere, planted
from segue.cli.exit_codes import Exit

pytestmark = pytest.mark.timeout(120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def models() -> list[str]:
    return [word for provider, name in MODELS.items() for word in ("--model", f"{provider}={name}")]


def test_a_gateway_at_an_address_is_judged(segue: Here, tmp_path: Path) -> None:
    port = free_port()
    page, junit, saved = (tmp_path / name for name in ("page.html", "junit.xml", "saved.json"))
    words = ["--only", "plain", "--door", "chat", "--model", "openai=gpt-5", "--port", str(port)]
    files = ["--page", str(page), "--junit", str(junit), "--save", str(saved)]
    with planted(PlantedFault(), f"http://127.0.0.1:{port}") as gateway:
        result = segue("gateway", "check", gateway.url, *words, *files)
    assert result.code == Exit.OK
    assert "plain     holds    2 of 2" in result.out
    assert f"http://127.0.0.1:{port}/openai/v1" in result.err
    assert ">holds" in page.read_text()
    assert "failures='0'" in junit.read_text()
    assert json.loads(saved.read_text())[0]["rows"][0]["held"] == 2


def test_a_gateway_that_fails_ends_the_command_with_findings(segue: Here) -> None:
    def silent(item: dict[str, object]) -> None:
        if isinstance(item.get("content"), str):
            item["content"] = ""

    port = free_port()
    with planted(PlantedFault(reply=everywhere(silent)), f"http://127.0.0.1:{port}") as gateway:
        words = ["--only", "plain", "--door", "chat", "--model", "openai=gpt-5", "--port", str(port)]
        result = segue("gateway", "check", gateway.url, *words, "--json")
    assert result.code == Exit.FINDINGS
    assert json.loads(result.out)[0]["rows"][0]["verdict"] == "fails"


def test_an_exception_is_printed_with_its_reason(segue: Here) -> None:
    port = free_port()
    with planted(PlantedFault(), f"http://127.0.0.1:{port}") as gateway:
        words = [
            "--only",
            "plain",
            "--model",
            "openai=gpt-5",
            "--port",
            str(port),
            "--except",
            "plain=too plain",
        ]
        result = segue("gateway", "check", gateway.url, *words)
    assert result.code == Exit.OK
    assert "not offered" in result.out
    assert "Not judged: plain: too plain" in result.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Give the URL of a gateway"),
        (["--for", "nobody"], "It can start: segue, litellm"),
        (["http://127.0.0.1:9", "--only", "nothing"], "No scenario is called nothing"),
        (["http://127.0.0.1:9", "--port", "0"], "--model needs the gateway's name"),
        (["http://127.0.0.1:9", "--port", "0", "--model", "cohere=a"], "not of cohere"),
        (["http://127.0.0.1:9", "--port", "0", "--model", "openai"], "--model openai has no"),
        (["http://127.0.0.1:9", "--port", "0", *models(), "--door", "x"], "--door is one of chat"),
        (["http://127.0.0.1:9", "--port", "0", *models(), "--wait", "0"], "No gateway answers at"),
        (["--for", "litellm", "--program", "/nonexistent"], "cannot be started"),
        (["http://127.0.0.1:9", "--beside", "/nonexistent.json"], "holds no saved result"),
    ],
)
def test_wrong_words_are_explained(words: list[str], told: str, segue: Here) -> None:
    result = segue("gateway", "check", *words)
    assert result.code == Exit.USAGE
    assert told in result.err


def test_segue_starts_its_own_gateway_and_judges_it(segue: Here) -> None:
    result = segue("gateway", "check", "--for", "segue", "--only", "tool loop")
    assert result.code == Exit.OK, result.err
    assert "tool loop  holds    24 of 24" in result.out
