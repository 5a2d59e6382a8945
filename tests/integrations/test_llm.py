"""The plugin for `llm`: found by its entry point, with tools, streams, schemas and conversations over processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

llm = pytest.importorskip("llm", reason="llm is not installed: make frameworks")

from click.testing import CliRunner
from llm.cli import cli
from llm.plugins import load_plugins, pm

from gateway.in_process_world import SEALING, InProcessWorld, no_sockets
from gateway.world import ROUTES
from integrations.obedient_model import ObedientModel
from segue.integrations import llm as plugin

OTHER = ROUTES["anthropic"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessWorld]:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-any")
    with InProcessWorld(memory=tmp_path / "memory") as world:
        monkeypatch.setattr(plugin, "_app", lambda: world.app)
        yield world


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def test_llm_finds_the_plugin_by_its_entry_point(world: InProcessWorld) -> None:
    load_plugins()
    assert "segue.integrations.llm" in [name for name, _ in pm.list_name_plugin()] or any(
        given is plugin for given in pm.get_plugins()
    )
    listed = CliRunner().invoke(cli, ["models"]).output
    assert "segue: segue/anthropic/claude-sonnet-4-6" in listed
    assert "segue: segue/mistral/" not in listed, "there is no key for it"


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_a_conversation_goes_to_another_model_and_back_with_all_seals(
    world: InProcessWorld, home: str
) -> None:
    sealed = 0
    asked: list[Any] = []
    with no_sockets():
        conversation = plugin.GatewayModel(home).conversation(tools=[weather])
        for model, words, results in (
            (home, "Please look.", 2),
            (OTHER, "Please look again.", 2),
            (home, "Thank you.", 0),
        ):
            conversation.model = plugin.GatewayModel(model)
            chain = conversation.chain(words)
            assert chain.text().endswith(f"I know: {results} results.")
            sealed = sealed or world.thoughts_of(home)
            asked.append(chain)
    world.check_return(home, before=sealed)


def test_a_prompt_of_the_command_line_continues_in_the_next_process(world: InProcessWorld) -> None:
    function = "def weather(city: str) -> str:\n    'The weather of a city.'\n    return 'rain'\n"
    home = SEALING["gemini"]
    run = CliRunner()
    first = run.invoke(cli, ["-m", f"segue/{home}", "--functions", function, "Please look."])
    assert first.exit_code == 0, first.output
    assert "I know: 2 results." in first.output
    sealed = world.thoughts_of(home)
    world.app.close()
    second = run.invoke(cli, ["-c", "-m", f"segue/{OTHER}", "--functions", function, "Please look again."])
    assert "I know: 2 results." in second.output
    third = run.invoke(cli, ["-c", "-m", f"segue/{home}", "--functions", function, "Thank you."])
    assert "I know: 0 results." in third.output
    assert world.refusals() == []
    assert world.seals_of_last(home) >= sealed


def test_a_schema_is_kept() -> None:
    with InProcessWorld(responder=ObedientModel()) as world:
        original = plugin._app
        plugin._app = lambda: world.app  # type: ignore[assignment]
        try:
            schema = {
                "type": "object",
                "properties": {"people": {"type": "integer"}},
                "required": ["people"],
            }
            text = plugin.GatewayModel(OTHER).prompt("Which city has 700 people?", schema=schema).text()
        finally:
            plugin._app = original
        assert json.loads(text) == {"people": 700}
        assert world.refusals() == []


def test_the_asynchronous_model_streams_and_counts(world: InProcessWorld) -> None:
    async def main() -> tuple[list[str], Any]:
        response = plugin.AsyncGatewayModel(OTHER).prompt("Hello.")
        pieces = [piece async for piece in response]
        return pieces, await response.usage()

    pieces, usage = asyncio.run(main())
    assert "".join(pieces) == "I know: 0 results."
    assert usage.input > 0


def test_errors_are_reported(world: InProcessWorld) -> None:
    answer = CliRunner().invoke(cli, ["-m", f"segue/{OTHER}", "-o", "temperature", "9", "Hello."])
    assert answer.exit_code != 0
    with pytest.raises(Exception, match="There is no model"):
        plugin.GatewayModel("nobody").prompt("Hello.").text()


def test_names_of_the_settings_are_models(
    world: InProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[aliases]\nfast = "{OTHER}"\n')
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    registered: list[str] = []
    plugin.register_models(lambda model, _: registered.append(model.model_id))
    assert registered[0] == "segue/fast"
    file.write_text("aliases = 3\n")
    registered.clear()
    plugin.register_models(lambda model, _: registered.append(model.model_id))
    assert "segue/anthropic/claude-sonnet-4-6" in registered
