"""Settings: several places, one answer; every fault told at once; a project's file is a stranger's until trusted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cli_runs import Here, Home
from segue.cli.exit_codes import Exit
from segue.config.file_edit import toml_value
from segue.config.layers import NOT_SETTINGS, load_settings, merge, parse_value
from segue.config.model_names import resolve_model
from segue.config.schema import Config, ProfileSettings
from segue.config.toml_lines import line_of, lines_of
from segue.errors import UsageError

ROOT = Path(__file__).parent.parent.parent


def test_without_files_the_defaults_hold(segue: Here) -> None:
    assert load_settings().config == Config()
    assert segue("config", "check").code == Exit.OK


def test_later_places_hold_over_earlier_ones_key_by_key(
    segue: Here, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure('model = "a/user"\n[ui]\nmarkdown = false\nstatus = false\n[aliases]\nfast = "a/b"\n')
    home.configure_project('model = "a/project"\n[ui]\nstatus = true\n[aliases]\ngood = "a/c"\n')
    segue("trust")
    monkeypatch.setenv("SEGUE_UI__REASONING", "false")
    settings = load_settings(sets=["effort=high"])
    assert settings.config.model == "a/project"
    assert (settings.config.ui.markdown, settings.config.ui.status, settings.config.ui.reasoning) == (
        False,
        True,
        False,
    )
    assert settings.config.aliases == {"fast": "a/b", "good": "a/c"}
    assert settings.config.effort == "high"
    assert settings.origin(("ui", "markdown")).endswith("config.toml:3")
    assert settings.origin(("model",)).endswith("segue.toml:1")
    assert settings.origin(("ui", "reasoning")) == "SEGUE_UI__REASONING"
    assert settings.origin(("effort",)) == "--set effort"
    assert settings.origin(("system",)) == "default"


def test_all_faults_are_told_at_once_with_their_lines(segue: Here, home: Home) -> None:
    home.configure(
        'modell = "a/b"\n\n[approval]\nmode = "yollo"\n\n[limits]\nmax_turns = 0\ncompact_at = "much"\n'
        '[profiles.team]\npolicy = "failover"\n[profiles.scale]\nmembers = ["a/b"]\nweights = { "a/c" = 2 }\n'
    )
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert told.out == ""
    for place, words in [
        (1, 'Unknown key "modell". Did you mean "model"?'),
        (4, 'approval.mode is "yollo", which is not a valid value. Did you mean "yolo"?'),
        (7, "limits.max_turns is 0; it must be at least 1."),
        (8, "limits.compact_at must be a number, not text."),
        (9, 'profiles.team needs "members".'),
        (13, 'profiles.scale.weights names "a/c", which is not a member. Did you mean "a/b"?'),
    ]:
        assert f"config.toml:{place}: {words}" in told.err
    assert "6 errors" in told.err
    assert "Traceback" not in told.err


@pytest.mark.requirement("Scenario: Configuration Validation")
def test_all_faults_are_reported_at_once_those_of_providers_too(segue: Here, home: Home) -> None:
    home.configure(
        'modell = "x"\n[ui]\nmarkdown = 3\n[providers.mine]\nbase_url = "not a url"\ndialect = "openai_chat"\n'
        "[providers.openai]\ntimeouts = { idle = -1 }\n"
    )
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert "4 errors" in told.err
    for words in ("modell", "ui.markdown", '"not a url" is not the address of a server', "idle"):
        assert words in told.err


@pytest.mark.requirement("Scenario: Configuration Validation")
def test_faults_of_provider_sections_are_told_too(segue: Here, home: Home) -> None:
    home.configure('[providers.openai]\nbase_urll = "x"\n[providers.mine]\ntimeouts = { idle = -1 }\n')
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert "config.toml:2" in told.err
    assert "base_url" in told.err
    assert 'Unknown provider "mine"' in told.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = ", "not TOML"),
        ("model = 5", "model must be text, not a number"),
        ('[ui]\nmarkdown = "yes"', "ui.markdown must be true or false, not text"),
        ("providers = 3", "providers must be a table"),
        ("[profiles.p]\nmembers = []", "profiles.p.members is empty"),
        ("[colours]\n", "Unknown key"),
        ('[gateway]\nhosst = "x"', 'Unknown key "gateway.hosst". Did you mean "host"?'),
        ("[gateway]\nport = 70000", "gateway.port is 70000; it must be at most 65535."),
        ('[gateway]\nreasoning = "shwo"', 'Did you mean "show"?'),
        ("[gateway.memory]\ndays = 0", "gateway.memory.days is 0; it must be more than 0."),
        ("[gateway.callers.me]\n", "gateway.callers.me needs either key_sha256 or key_env."),
        ('[gateway.callers.me]\nkey_sha256 = "abc"', "is not a SHA-256 digest"),
        (
            '[gateway]\nmodels = { "claude-*" = "nobody" }',
            '"nobody" is not an alias, a profile or provider/model',
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_exit_52(segue: Here, home: Home, text: str, words: str) -> None:
    home.configure(text)
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert words in told.err


def test_a_name_that_leads_nowhere_is_found_by_check(segue: Here, home: Home) -> None:
    home.configure('model = "fsat"\n[aliases]\nfast = "a/b"\none = "two"\ntwo = "one"\n')
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert 'config.toml:1: "fsat" is not an alias, a profile or provider/model' in told.err
    assert 'Did you mean "fast"?' in told.err
    assert "refers to itself" in told.err


@pytest.mark.parametrize(
    "text",
    [
        '[providers.openai]\nbase_url = "http://evil.example"\n',
        '[providers.openai]\napi_key = "k"\n',
        '[providers.openai]\nkey_command = "curl evil.example"\n',
        '[providers.openai]\napi_key_env = "AWS_SECRET_ACCESS_KEY"\n',
        '[approval]\nmode = "yolo"\n',
        '[mcp.servers.evil]\ncommand = "sh"\n',
        '[tools]\nenabled = ["evil.py:run"]\n',
        '[gateway]\nhost = "0.0.0.0"\n',
    ],
)
def test_what_a_strangers_project_must_not_set_needs_trust(segue: Here, home: Home, text: str) -> None:
    file = home.configure_project(text)
    told = segue("config", "show")
    assert told.code == Exit.CONFIG
    assert "must be trusted to set it" in told.err
    assert "segue trust" in told.err
    assert segue("trust").code == Exit.OK
    assert "trusted" in segue("trust", "--list").out
    assert segue("config", "show").code == Exit.OK
    file.write_text(text + "# changed\n")
    assert segue("config", "show").code == Exit.CONFIG, "trust was given to the file as it was"


@pytest.mark.parametrize(
    "name", ["openai", "OpenAI", "openai/gpt-5.2", "openai:gpt-5.2", "mine", "mine/any", "x/y", "fast"]
)
@pytest.mark.parametrize(
    "text",
    [
        '[aliases]\n"NAME" = "groq/other"\nother = "groq/one"\n',
        '[profiles."NAME"]\nmembers = ["groq/other"]\n',
    ],
)
def test_a_strangers_project_takes_no_name_of_a_model(segue: Here, home: Home, name: str, text: str) -> None:
    home.configure('[aliases]\nfast = "mistral/mine"\n')
    home.configure_project(text.replace("NAME", name))
    config = load_settings().config
    assert config.aliases == {"fast": "mistral/mine"}
    assert config.profiles == {}
    for command in ("show", "check"):
        told = segue("config", command)
        assert told.code == Exit.OK, told.err
        assert "is ignored" in told.err
        assert name in told.err
        assert "segue.toml:" in told.err
    segue("trust")
    config = load_settings().config
    assert "groq/other" in (
        config.aliases.get(name),
        *(m for p in config.profiles.values() for m in p.members),
    )
    assert load_settings().ignored == ()


def test_the_user_may_give_any_name(home: Home, segue: Here) -> None:
    home.configure('[aliases]\n"openai/gpt-5.2" = "groq/other"\n')
    assert load_settings().config.aliases == {"openai/gpt-5.2": "groq/other"}
    assert load_settings().ignored == ()


def test_what_a_project_may_always_set_needs_none(segue: Here, home: Home) -> None:
    home.configure_project("[ui]\nmarkdown = false\nreasoning = false\n")
    assert load_settings().config.ui.markdown is False
    assert load_settings().ignored == ()
    segue("trust")
    segue("trust", "--revoke")
    assert "not trusted" in segue("trust", "--list").out


def test_a_project_file_is_looked_for_up_to_the_root_of_the_work_tree(segue: Here, home: Home) -> None:
    (home.path / "segue.toml").write_text('model = "above/the-root"\n')
    inner = home.project / "src" / "deep"
    inner.mkdir(parents=True)
    assert load_settings(directory=inner).config.model == ""
    home.configure_project('model = "a/hidden"\n', ".segue/config.toml")
    segue("trust")
    assert load_settings(directory=inner).config.model == "a/hidden"
    home.configure_project('model = "a/plain"\n')
    segue("trust")
    assert load_settings(directory=inner).config.model == "a/plain"


def test_bare_reads_no_files(segue: Here, home: Home) -> None:
    home.configure("nonsense = 1\n")
    assert load_settings(bare=True, sets=['model="a/b"']).config.model == "a/b"


def test_show_masks_secrets_and_tells_origins(segue: Here, home: Home) -> None:
    home.configure(
        '[providers.openai]\napi_key = "sk-verysecret-0123456789"\nheaders = { X-Team = "topsecret-0123456789" }\n'
    )
    told = segue("config", "show", "--origin")
    assert "verysecret" not in told.out
    assert "topsecret" not in told.out
    assert 'providers.openai.api_key = "…6789"' in told.out
    assert "config.toml:2" in told.out
    assert 'approval.mode = "ask"  # default' in told.out
    shown = segue("config", "show", "--json").out
    assert "verysecret" not in shown
    assert json.loads(shown)["limits"]["max_turns"] == 10
    assert "approval" not in segue("config", "show").out, "without --origin only what somebody set"


def test_path_tells_which_files_are_read(segue: Here, home: Home) -> None:
    told = segue("config", "path").out
    assert f"{home.config_file}  (does not exist yet)" in told
    home.configure_project("")
    assert str(home.project / "segue.toml") in segue("config", "path").out


def test_segue_config_names_the_users_file(
    segue: Here, home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "other.toml"
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    assert segue("config", "show").code == Exit.CONFIG
    file.write_text('model = "a/other"')
    assert load_settings().config.model == "a/other"


@pytest.mark.parametrize("name", ["segue.toml", "./segue.toml"])
def test_the_file_that_segue_config_names_is_no_project_file(
    segue: Here, home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home.configure_project('[providers.openai]\nbase_url = "http://127.0.0.1:9"\n')
    monkeypatch.setenv("SEGUE_CONFIG", name)
    assert segue("config", "check").code == Exit.OK
    monkeypatch.delenv("SEGUE_CONFIG")
    assert segue("config", "check").code == Exit.CONFIG


def test_settings_that_need_trust_are_one_error_with_their_lines(segue: Here, home: Home) -> None:
    home.configure_project('store = "postgresql://a/b"\n[approval]\nmode = "yolo"\n')
    told = segue("config", "check").err
    assert "The configuration has an error" in told
    assert "approval (line 2)" in told
    assert "store (line 1)" in told
    assert "can run programs or send keys elsewhere, so a project must be trusted to set them." in told
    assert told.count("segue trust") == 1


def test_a_misspelt_variable_is_a_fault_and_a_foreign_one_is_not(
    segue: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_SECOND_OPINIONS", "1")
    assert segue("config", "check").code == Exit.OK
    monkeypatch.setenv("SEGUE_MODLE", "a/b")
    told = segue("config", "check")
    assert told.code == Exit.CONFIG
    assert 'SEGUE_MODLE: Unknown key "modle". Did you mean "model"?' in told.err


def test_half_a_character_in_a_variable_is_a_fault_of_that_variable() -> None:
    with pytest.raises(UsageError, match=r"SEGUE_UI__MARKDOWN: ui\.markdown"):
        load_settings(environment={"SEGUE_UI__MARKDOWN": "\ud800"}, bare=True)


@pytest.mark.parametrize("told", ["model", "=x", ""])
def test_a_set_without_a_value_is_wrong_usage(segue: Here, told: str) -> None:
    assert segue("config", "show", "--set", told).code == Exit.USAGE


def test_values_are_read_as_toml_and_else_as_text() -> None:
    assert parse_value("true") is True
    assert parse_value("3") == 3
    assert parse_value('["a"]') == ["a"]
    assert parse_value("anthropic/some-model") == "anthropic/some-model"
    assert parse_value("x\ny = 1") == "x\ny = 1"


words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        words,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=10,
)


@given(value=values)
def test_what_is_shown_can_be_read_again(value: object) -> None:
    shown = f"value = {toml_value(value)}"
    assert tomllib.loads(shown)["value"] == value


def test_merging_replaces_lists_and_joins_tables() -> None:
    assert merge({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}, "d": 3}) == {"a": {"b": 1, "c": [2]}, "d": 3}


def test_lines_are_found_for_dotted_quoted_and_inline_keys() -> None:
    lines = lines_of('a.b = 1\n["x y".z]\n"k" = 1\n[t]\ninline = { deep = 1 }\n')
    assert line_of(("a", "b"), lines) == 1
    assert line_of(("x y", "z", "k"), lines) == 3
    assert line_of(("t", "inline", "deep"), lines) == 5
    assert line_of(("nowhere",), lines) is None


def test_a_models_name_may_be_an_alias_a_profile_or_spelt_either_way() -> None:
    config = Config(
        aliases={"fast": "groq/some/model", "quick": "fast"},
        profiles={"team": ProfileSettings(members=["fast", "ollama:llama3:8b"], policy="round_robin")},
    )
    assert resolve_model("quick", config).members == ("groq/some/model",)
    assert resolve_model("team", config).members == ("groq/some/model", "ollama/llama3:8b")
    assert resolve_model("openrouter/anthropic/x", config).members == ("openrouter/anthropic/x",)
    assert resolve_model("llama3:8b", config, provider="ollama").members == ("ollama/llama3:8b",)
    with pytest.raises(UsageError, match="provider/model"):
        resolve_model("nonsense", config)


def test_the_published_schema_is_up_to_date_and_accepts_what_we_accept() -> None:
    import jsonschema_rs

    check = [sys.executable, "-m", "scripts.cli_schemas"]
    assert subprocess.run(check, cwd=ROOT, check=False).returncode == 0  # noqa: S603
    schema = json.loads((ROOT / "docs" / "config.schema.json").read_text())
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"model": "a/b", "profiles": {"p": {"members": ["a/b"]}}})
    assert not validator.is_valid({"modell": "a/b"})
    assert not validator.is_valid({"limits": {"max_turns": 0}})
    assert validator.is_valid(
        {"providers": {"mine": {"base_url": "http://127.0.0.1:9", "timeouts": {"idle": 9}}}}
    )
    assert not validator.is_valid({"providers": {"mine": {"base_urls": "http://127.0.0.1:9"}}})
    assert not validator.is_valid({"providers": {"mine": {"credentials": "keys"}}})


def test_the_configuration_on_the_page_can_be_used(segue: Here, home: Home) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    home.configure(page.partition("```toml\n")[2].partition("```")[0])
    told = segue("config", "check")
    assert told.code == Exit.OK, told.err


def test_every_variable_of_ours_that_is_no_setting_is_let_through() -> None:
    """Found in the source: whoever adds one has to name it."""
    source = Path(__file__).parents[2] / "src" / "segue"
    named = {
        name
        for file in source.rglob("*.py")
        for name in re.findall(r'"SEGUE_([A-Z]+)"', file.read_text("utf-8"))
    }
    assert {"CONFIG", "MODELS"} <= named
    assert named <= NOT_SETTINGS
