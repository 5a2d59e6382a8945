"""Every error a user can meet: what happened, why, what to do next, the documented exit code, and never a traceback."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, TypeAlias, get_args

import pytest

from cli.cli_runs import Cloud, Here, Home, Result
from segue.cli.exit_codes import Exit
from segue.emulators.model.model_reply import Call
from segue.errors import Remedy

Met: TypeAlias = "Callable[[Cloud, Here], Result]"


def no_provider(cloud: Cloud, segue: Here) -> Result:
    segue.forget("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    return segue("hi")


def no_key(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "-m", "mistral/mistral-large-latest")


def wrong_key(cloud: Cloud, segue: Here) -> Result:
    cloud.fail(kind="status", status=401)
    return segue("hi")


def unknown_model(cloud: Cloud, segue: Here) -> Result:
    cloud.fail(kind="status", status=404)
    return segue("hi", "-m", "openai/gpt-nonsense")


def unknown_provider(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "-m", "antropic/claude")


def unknown_alias(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "-m", "sonet")


def no_model(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "-m", "qqqq")


def bad_flag(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "--modle", "x")


def misspelt_command(cloud: Cloud, segue: Here) -> Result:
    return segue("sesions")


def bad_config(cloud: Cloud, segue: Here) -> Result:
    cloud.home.configure("[ui]\nmarkdwon = true\n")
    return segue("hi")


def untrusted_project(cloud: Cloud, segue: Here) -> Result:
    cloud.home.configure_project('[providers.openai]\nbase_url = "http://evil.example"\n')
    return segue("hi")


def no_server(cloud: Cloud, segue: Here) -> Result:
    cloud.home.configure(
        '[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[profiles.once]\nmembers = ["mine/x"]\npolicy = "single"\nretry = { attempts = 1 }\n'
    )
    return segue("hi", "-m", "once")


def overloaded(cloud: Cloud, segue: Here) -> Result:
    for _ in range(5):
        cloud.fail(kind="status", status=503, retry_after=0.01)
    return segue("hi")


def everyone_failed(cloud: Cloud, segue: Here) -> Result:
    for _ in range(5):
        cloud.fail(kind="status", status=401, retry_after=0.01)
    return segue("hi", "-m", "openai/gpt-4.1", "--fallback", "anthropic/claude-sonnet-4-6")


def no_money(cloud: Cloud, segue: Here) -> Result:
    cloud.fail(kind="status", status=402)
    return segue("hi", "-m", "anthropic/claude-sonnet-4-6")


def too_long(cloud: Cloud, segue: Here) -> Result:
    return segue("-m", "openai/gpt-4.1", stdin="word " * 1_200_000)


def refused_request(cloud: Cloud, segue: Here) -> Result:
    cloud.fail(kind="status", status=400)
    return segue("hi")


def withheld_answer(cloud: Cloud, segue: Here) -> Result:
    cloud.reply("Well", finish="content_filter")
    return segue("hi", "-m", "openai/gpt-4.1")


def broken_stream(cloud: Cloud, segue: Here) -> Result:
    for _ in range(5):
        cloud.fail(kind="cut", at_byte=30)
    return segue("hi")


def garbled_stream(cloud: Cloud, segue: Here) -> Result:
    for _ in range(5):
        cloud.fail(kind="malformed")
    return segue("hi")


def a_page_instead_of_an_api(cloud: Cloud, segue: Here) -> Result:
    for _ in range(5):
        cloud.fail(kind="content_type")
    return segue("hi")


def session_busy(cloud: Cloud, segue: Here) -> Result:
    segue("hi")
    database = sqlite3.connect(next(cloud.home.path.rglob("sessions.db")))
    with database:  # somebody on another machine has it open
        database.execute(
            "UPDATE sessions SET host = 'elsewhere', pid = 1, token = 'x', born = '', held_since = 0,"
            " held_until = (julianday('now') - 2440587.5) * 86400.0 + 1000"
        )
    database.close()
    return segue("-c", "more")


def unknown_session(cloud: Cloud, segue: Here) -> Result:
    return segue("-r", "nonsense", "hi")


def nothing_to_continue(cloud: Cloud, segue: Here) -> Result:
    return segue("-c", "hi")


def broken_line(cloud: Cloud, segue: Here) -> Result:
    return segue("--input-format", "stream-json", stdin='{"role": "user"\n')


def nothing_to_ask(cloud: Cloud, segue: Here) -> Result:
    return segue(stdin="  \n")


def missing_tool(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "-T", "read_fil")


def broken_tool_file(cloud: Cloud, segue: Here) -> Result:
    (cloud.home.project / "broken.py").write_text("def add(:\n")
    return segue("hi", "-T", "broken.py:add")


def missing_schema(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "--schema", "nowhere.json")


def bad_pattern(cloud: Cloud, segue: Here) -> Result:
    return segue("hi", "--allowed-tools", "run_shell(git")


def missing_import(cloud: Cloud, segue: Here) -> Result:
    return segue("sessions", "import", "nowhere.json")


def unreadable_import(cloud: Cloud, segue: Here) -> Result:
    return segue("sessions", "import", "-", stdin="{cut off")


def cannot_pull(cloud: Cloud, segue: Here) -> Result:
    return segue("models", "pull", "openai/gpt-4.1")


def no_such_model_name(cloud: Cloud, segue: Here) -> Result:
    return segue("models", "show", "openai")


@pytest.mark.parametrize(
    ("met", "code", "words"),
    [
        (no_provider, Exit.NO_KEY, ("No model is configured. Three ways", "OPENAI_API_KEY")),
        (no_key, Exit.NO_KEY, ("no key for Mistral", "MISTRAL_API_KEY", "segue keys set mistral")),
        (wrong_key, Exit.NO_KEY, ("segue keys set",)),
        (unknown_model, Exit.INPUT, ("gpt-nonsense",)),
        (unknown_provider, Exit.USAGE, ("antropic", 'Did you mean "anthropic"?')),
        (unknown_alias, Exit.USAGE, ("sonet", "Did you mean anthropic/claude-sonnet-")),
        (no_model, Exit.USAGE, ("qqqq", "provider/model")),
        (bad_flag, Exit.USAGE, ("--modle", "Did you mean --model?")),
        (misspelt_command, Exit.USAGE, ('Did you mean "sessions"?', "segue -- sesions")),
        (bad_config, Exit.CONFIG, ("config.toml:2", 'Did you mean "markdown"?')),
        (untrusted_project, Exit.CONFIG, ("segue.toml:2", "must be trusted to set it", "segue trust")),
        (no_server, Exit.PROVIDERS_FAILED, ("127.0.0.1:9", "Check the address")),
        (overloaded, Exit.PROVIDERS_FAILED, ("--fallback",)),
        (everyone_failed, Exit.PROVIDERS_FAILED, ("openai/gpt-4.1", "anthropic/claude-sonnet-4-6")),
        (no_money, Exit.PROVIDERS_FAILED, ("account",)),
        (too_long, Exit.INPUT, ("larger context window",)),
        (refused_request, Exit.INPUT, ("segue:",)),
        (withheld_answer, Exit.INPUT, ("withheld", "another model")),
        (broken_stream, Exit.PROVIDERS_FAILED, ("segue:",)),
        (garbled_stream, Exit.PROVIDERS_FAILED, ("broke off", "could not be read")),
        (a_page_instead_of_an_api, Exit.PROVIDERS_FAILED, ("--fallback",)),
        (session_busy, Exit.INPUT, ("elsewhere", "--take-over")),
        (unknown_session, Exit.USAGE, ("nonsense", "segue sessions list")),
        (nothing_to_continue, Exit.USAGE, ("This directory has no session yet", "-r ID")),
        (broken_line, Exit.INPUT, ("Line 1 of stdin", '{"role": "user"')),
        (nothing_to_ask, Exit.USAGE, ("prompt is empty", 'segue "…"')),
        (missing_tool, Exit.TOOL, ("read_fil", 'Did you mean "read_file"?')),
        (broken_tool_file, Exit.TOOL, ("broken.py", "SyntaxError")),
        (missing_schema, Exit.USAGE, ("nowhere.json",)),
        (bad_pattern, Exit.USAGE, ("run_shell(git", "run_shell(git status)")),
        (missing_import, Exit.USAGE, ("nowhere.json",)),
        (unreadable_import, Exit.UNRENDERABLE, ("segue:",)),
        (cannot_pull, Exit.USAGE, ("cannot download models",)),
        (no_such_model_name, Exit.USAGE, ("provider/model",)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_an_error_says_what_why_and_what_next(
    cloud: Cloud, asked: Here, met: Met, code: Exit, words: tuple[str, ...]
) -> None:
    told = met(cloud, asked)
    assert told.code == code, told.err
    assert told.out == "" or met is withheld_answer
    for word in words:
        assert word in told.err
    assert "Traceback" not in told.err
    assert "sk-test" not in told.err, "no key is ever shown"
    assert len(told.err.strip().splitlines()) >= 2 or code == Exit.USAGE, "an error tells what to do next"


@pytest.mark.parametrize("met", [no_provider, wrong_key, unknown_session, missing_tool, bad_config])
def test_scripts_get_a_result_also_after_an_error(cloud: Cloud, asked: Here, met: Met) -> None:
    told = met(cloud, asked.with_words("--json"))
    result = json.loads(told.out)
    assert (result["type"], result["is_error"], result["subtype"]) == (
        "result",
        True,
        "error_during_execution",
    )
    assert result["error"].keys() >= {"code", "message", "remedy", "hint"}
    assert result["error"]["remedy"] in get_args(Remedy)
    assert result["error"]["hint"] not in get_args(Remedy)
    assert told.err, "people are told too"


def test_an_error_that_nobody_foresaw_is_told_in_two_lines(
    asked: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("segue.cli.commands.health.run", broken)
    told = asked("health")
    assert told.code == Exit.INTERNAL
    assert "ZeroDivisionError: oops" in told.err
    assert "--debug" in told.err
    with pytest.raises(ZeroDivisionError):
        asked("--debug", "health")


def test_the_documented_exit_codes_are_those_that_exist() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
    for code in Exit:
        assert f"| {code.value} |" in page, code


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends everybody on to /moved, and notes who comes."""

    visits: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.visits.append(self.path)
        self.send_response(307)
        self.send_header("Location", "/moved")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Be silent."""


def test_a_redirect_is_reported_once_with_its_target_and_not_followed(segue: Here, home: Home) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        home.configure(
            f'[providers.mine]\nbase_url = "http://127.0.0.1:{server.server_port}/v1"\ndialect = "openai_chat"\n'
            'api_key = "sk-mine-0123456789"\n'
        )
        told = segue("hi", "-m", "mine/any")
        server.shutdown()
        thread.join()
    assert told.code != Exit.OK
    assert "status 307, a redirect to /moved." in told.err
    assert "base_url" in told.err
    assert len(_Elsewhere.visits) == 1, "neither followed nor tried again"
    assert "/moved" not in _Elsewhere.visits


def test_a_refused_request_is_reported_with_its_ids_its_repairs_and_what_to_run(
    cloud: Cloud, asked: Here
) -> None:
    cloud.reply(Call("list_dir", {"path": "."}))
    cloud.reply("Done.")
    assert asked("look", "-T", "list_dir").code == Exit.OK
    cloud.fail(kind="status", status=400)
    told = asked("-c", "--json", "-m", "anthropic/claude-sonnet-4-6", "again")
    error = json.loads(told.out)["error"]
    session = json.loads(told.out)["session_id"]
    assert error["request_id"]
    assert list(error["call_ids"]) == ["c0"]
    assert error["call_ids"]["c0"].startswith("toolu_")
    assert f"segue sessions export {session} | segue doctor - --for anthropic" in error["hint"]
    assert "/view" not in error["hint"]
    assert "call c0 was sent as" not in told.err
    cloud.fail(kind="status", status=400)
    told = asked("-c", "--debug", "again")
    assert "call c0 was sent as toolu_" in told.err
    # What the advice names can be run as it stands.
    exported = asked("sessions", "export", session)
    assert exported.code == Exit.OK
    assert asked("doctor", "-", "--for", "anthropic", stdin=exported.out).code == Exit.OK


def test_an_answer_with_a_hole_is_shown_up_to_it_and_the_exit_code_says_so(cloud: Cloud, asked: Here) -> None:
    cloud.reply("One two three four five six seven eight nine ten. " * 20)
    cloud.fail(kind="malformed", at_byte=3000)
    told = asked("hi")
    assert told.code == Exit.PROVIDERS_FAILED
    assert "could not be read" in told.err
    assert ("One two three four five six seven eight nine ten. " * 20).startswith(told.out.strip())
    assert told.out.strip()
