"""Names without a provider, the default model, near misses of commands, and small things that people stumble over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here, Home
from segue.cli.exit_codes import Exit


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("anthropic", "claude-sonnet-5-5"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("anthropic/claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
    ],
)
def test_a_bare_name_is_enough_where_it_is_clear(cloud: Cloud, asked: Here, name: str, model: str) -> None:
    assert asked("hi", "-m", name).code == Exit.OK
    assert cloud.bodies()[-1]["model"] == model


def test_a_name_that_is_not_clear_is_refused_with_the_choices(cloud: Cloud, asked: Here) -> None:
    cloud.home.configure(
        f'[providers.azure-openai]\nbase_url = "{cloud.served.url("openai")}/v1"\napi_key = "any"\n'
    )
    told = asked("hi", "-m", "gpt-4.1")
    assert told.code == Exit.USAGE
    assert "openai/gpt-4.1, azure-openai/gpt-4.1" in told.err
    assert "Did you mean openai/gpt-4.1 or " in asked("hi", "-m", "gtp-4.1").err
    assert cloud.bodies() == []


def test_a_part_of_a_name_suggests_the_newest_models_that_have_it(cloud: Cloud, asked: Here) -> None:
    told = asked("hi", "-m", "sonnet")
    assert told.code == Exit.USAGE
    assert "Did you mean anthropic/claude-sonnet-5-5 or " in told.err
    assert cloud.bodies() == []


def test_a_model_that_its_provider_does_not_know_suggests_a_similar_one(cloud: Cloud, asked: Here) -> None:
    told = asked("hi", "-m", "openai/gpt-5-mni")
    assert told.code == Exit.INPUT
    assert "Did you mean openai/gpt-5-mini" in told.err


def test_the_default_model_is_kept_and_shown(cloud: Cloud, asked: Here) -> None:
    assert asked("models", "default", "claude-opus-5-5").code == Exit.OK
    assert asked("models", "default").out == "anthropic/claude-opus-5-5\n"
    asked("hi")
    assert cloud.bodies()[-1]["model"] == "claude-opus-5-5"
    assert asked("models", "default", "anthropic/claude-opus-4-1").code == Exit.OK
    assert asked("models", "default").out == "anthropic/claude-opus-4-1\n"
    assert asked("models", "default", "nobody/x").code == Exit.USAGE


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("chat",), "Start a chat: segue, without a prompt"),
        (("session", "list"), 'Did you mean "sessions list"?'),
        (("model",), 'Did you mean "models"?'),
        (("key", "set", "openai"), 'Did you mean "keys set openai"?'),
        (("login",), "segue keys set PROVIDER"),
        (("logs",), "segue sessions list"),
        (("cost",), "segue usage"),
        (("stats",), "segue usage"),
        (("init",), "segue keys set PROVIDER"),
        (("mcp", "list"), ".mcp.json"),
        (("tools",), "-T all"),
        (("update",), "git pull"),
        (("install",), "segue models pull NAME"),
        (("exec",), "Give the prompt itself"),
    ],
)
def test_near_misses_of_commands_are_caught(
    cloud: Cloud, asked: Here, words: tuple[str, ...], advice: str
) -> None:
    told = asked(*words)
    assert told.code == Exit.USAGE
    assert advice in told.err
    assert f"segue -- {' '.join(words)}" in told.err
    assert cloud.bodies() == []


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("logs", "-f"), "segue sessions list"),
        (("fix", __file__), "segue doctor --fix FILE"),
        (("logs", "--since", "1d"), "segue sessions list"),
        (("chat", "-m", "openai/gpt-4.1"), "Start a chat: segue, without a prompt"),
        (("-m", "openai/gpt-4.1", "mcp", "list"), ".mcp.json"),
        (("-s", "Be brief.", "stats"), "segue usage"),
        (("-m", "openai/gpt-4.1", "models"), "A command must be the first word: segue models"),
    ],
)
def test_near_misses_of_commands_are_caught_beside_flags(
    cloud: Cloud, asked: Here, words: tuple[str, ...], advice: str
) -> None:
    told = asked(*words)
    assert told.code == Exit.USAGE
    assert advice in told.err
    assert cloud.bodies() == []


@pytest.mark.parametrize(
    "words",
    [
        ("session", "ideas", "please"),
        ("chat with me",),
        ("list", "three", "birds"),
        ("--no-session", "more"),
        ("-m", "openai/gpt-4.1", "models", "of", "cars"),
    ],
)
def test_other_prompts_are_sent(asked: Here, words: tuple[str, ...]) -> None:
    assert asked(*words).code == Exit.OK


def test_a_word_for_a_session_that_goes_on_is_sent(asked: Here) -> None:
    assert asked("hello").code == Exit.OK
    assert asked("-c", "continue").code == Exit.OK


def test_tab_completes_the_models_that_can_be_used(asked: Here) -> None:
    names = asked("completion", "models").out.split()
    assert "openai/gpt-4.1" in names
    assert not [name for name in names if name.startswith("mistral/")]  # it has no key
    for shell in ("bash", "zsh", "fish"):
        assert "segue completion models" in asked("completion", shell).out


def test_a_wrong_choice_suggests_a_right_one(asked: Here) -> None:
    assert "Did you mean high?" in asked("hi", "--effort", "hgh").err


def test_a_flag_is_not_suggested_to_whoever_gave_it_a_wrong_value(asked: Here) -> None:
    told = asked("serve", "--port", "x")
    assert "argument --port: invalid int value: 'x'" in told.err
    assert "Did you mean" not in told.err


def test_commands_that_know_no_bare_do_not_hint_at_it_as_theirs(asked: Here) -> None:
    assert "unrecognized arguments: --bare" in asked("serve", "--bare").err
    assert "segue --bare" in asked("serve", "--set", "gateway.workers=0").err


def test_nothing_is_suggested_that_is_not_similar(asked: Here) -> None:
    told = asked("models", "nope")
    assert 'There is no provider "nope".' in told.err
    assert "Did you mean" not in told.err


def test_a_key_of_nobody_is_refused_before_it_is_asked_for(segue: Here) -> None:
    told = segue("keys", "set", "nopr")
    assert told.code == Exit.USAGE
    assert 'There is no provider "nopr".' in told.err


def test_a_profile_with_an_unknown_member_is_a_fault(segue: Here, home: Home) -> None:
    home.configure('[profiles.team]\nmembers = ["opnai/gpt-4.1"]\n')
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert 'There is no provider "opnai". Did you mean "openai"?' in told.err


def test_what_is_no_transcript_exits_as_the_page_says(segue: Here, home: Home) -> None:
    (home.project / "x.txt").write_text("nonsense")
    told = segue("doctor", "x.txt")
    assert told.code == Exit.USAGE
    assert "not_json the file:" in told.out


def test_lists_are_shown_as_lists_and_vectors_name_their_model(asked: Here) -> None:
    assert "(" not in asked("models", "show", "openai/gpt-4.1").out
    assert json.loads(asked("embed", "-m", "openai", "--json", "x").out)["model"] == "text-embedding-3-small"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (b"{", "script.json: not a script"),
        (b'{"replies": 3}', "Expected `array`"),
        (b"\xff", "script.json"),
        (b'{"rules": [{"pattern": "(", "reply": {}}]}', "the pattern '(' cannot be used"),
        (None, "No such file"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused_with_the_reason(
    segue: Here, tmp_path: Path, script: bytes | None, why: str
) -> None:
    file = tmp_path / "script.json"
    if script is not None:
        file.write_bytes(script)
    told = segue("emulate", "--port", "0", "--script", str(file))
    assert told.code == Exit.USAGE
    assert why in told.err
    assert "internal error" not in told.err


def test_the_exports_of_the_emulators_lead_to_them(segue: Here) -> None:
    lines = segue("emulate", "--env", "--port", "1234").out.splitlines()
    assert "export OPENAI_BASE_URL=http://127.0.0.1:1234/openai/v1" in lines
    assert "export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:1234/gemini" in lines
    assert all(line.startswith("export ") for line in lines)
