"""One question, one answer, against emulated providers: stdout carries the answer and nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit
from segue.emulators.model.model_reply import Call, Think
from segue.tools.sandbox.mechanisms import Mechanism

ROOT = Path(__file__).parents[3]
SCHEMA = jsonschema_rs.validator_for(json.loads((ROOT / "docs" / "events.schema.json").read_text()))


def lines(out: str) -> list[dict[str, Any]]:
    """The events of a run, each of which follows the published schema."""
    told = [json.loads(line) for line in out.splitlines()]
    for event in told:
        SCHEMA.validate(event)
    return told


def user_text(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


@pytest.mark.parametrize("words", [("hello", "there"), ("-p", "hello there"), ("--", "hello there")])
def test_words_are_a_prompt_and_stdout_is_the_answer(
    cloud: Cloud, asked: Here, words: tuple[str, ...]
) -> None:
    cloud.reply("Good day.")
    told = asked(*words)
    assert (told.code, told.out) == (Exit.OK, "Good day.\n")
    assert user_text(cloud.bodies()[-1]) == "hello there"


def test_a_command_behind_two_dashes_is_a_prompt(cloud: Cloud, asked: Here) -> None:
    assert asked("--", "convert").code == Exit.OK
    assert user_text(cloud.bodies()[-1]) == "convert"


def test_help_is_told_by_word_too(asked: Here) -> None:
    assert asked("help").out == asked("--help").out
    assert asked("help", "models").out == asked("models", "--help").out


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "--output-format", "text", "x"),
        ("--no-session", "-c", "x"),
        ("--fork", "x"),
        ("--input-format", "stream-json", "x"),
        ("--max-turns", "0", "x"),
        ("--timeout", "-1", "x"),
        ("--effort", "huge", "x"),
        ("x", "--version"),
    ],
)
def test_flags_that_make_no_sense_are_refused(cloud: Cloud, asked: Here, words: tuple[str, ...]) -> None:
    told = asked(*words)
    assert told.code == Exit.USAGE
    assert told.err
    assert cloud.bodies() == []


def test_flags_may_stand_between_words(cloud: Cloud, asked: Here) -> None:
    assert asked("one", "-m", "openai/gpt-4.1-mini", "two").code == Exit.OK
    body = cloud.bodies()[-1]
    assert (body["model"], user_text(body)) == ("gpt-4.1-mini", "one two")


def test_what_is_piped_in_goes_with_the_prompt(cloud: Cloud, asked: Here) -> None:
    asked("Sum this up", stdin="a long text\n")
    assert user_text(cloud.bodies()[-1]) == "Sum this up\n\n<stdin>\na long text\n</stdin>"
    asked(stdin="only this\n")
    assert user_text(cloud.bodies()[-1]) == "only this\n"
    asked("Say:", "-", stdin="this\n")
    assert user_text(cloud.bodies()[-1]) == "Say: this"


def test_without_configuration_a_key_in_the_environment_decides_and_one_line_says_so(
    cloud: Cloud, asked: Here
) -> None:
    told = asked("hello")
    (line,) = told.err.splitlines()
    assert line.startswith("Using openai/")
    assert "a key for OpenAI was found" in line
    assert "-m provider/model" in line
    assert asked("hello", "-q").err == ""


def test_without_any_key_a_running_local_server_answers(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.without_keys()
    here = cloud.home.here(monkeypatch, OLLAMA_HOST=cloud.served.url("ollama"))
    told = here("hello")
    assert told.code == Exit.OK
    assert "Using ollama/" in told.err
    assert "Ollama runs on this machine" in told.err


def test_with_nothing_at_all_three_ways_are_told_in_five_lines(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.without_keys()
    told = cloud.home.here(monkeypatch)("hello")
    assert (told.code, told.out) == (Exit.NO_KEY, "")
    assert len(told.err.strip().splitlines()) == 5
    for words in ("OPENAI_API_KEY", "segue keys set", "ollama serve", "segue models pull embedded/"):
        assert words in told.err


def test_a_key_in_the_environment_goes_before_a_stored_one(cloud: Cloud, asked: Here) -> None:
    asked("keys", "set", "openai", stdin="sk-ant-stored-0123456789")
    asked.forget("OPENAI_API_KEY")
    assert "Using anthropic/" in asked("hello").err


def test_a_limit_of_cost_is_told_once(cloud: Cloud, asked: Here) -> None:
    cloud.reply("words " * 500)
    told = asked("hello", "-m", "openai/gpt-4.1", "--max-cost", "0.000001")
    assert told.code == Exit.TURN_LIMIT
    assert told.err.count("has cost") == 1


def test_a_price_that_is_not_known_cannot_be_a_limit(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cloud.home.here(monkeypatch, OLLAMA_HOST=cloud.served.url("ollama"))
    told = here("hello", "-m", "ollama/qwen3", "--max-cost", "1")
    assert told.code == Exit.OK, told.err
    assert "cannot be kept" in told.err or "known" not in told.err


def test_a_stored_key_is_used(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.without_keys()
    here = cloud.home.here(monkeypatch)
    here("keys", "set", "anthropic", stdin="sk-ant-stored-0123456789")
    told = here("hello")
    assert told.code == Exit.OK
    assert "Using anthropic/" in told.err


def test_a_configured_model_alias_or_profile_answers(cloud: Cloud, asked: Here) -> None:
    cloud.home.configure(
        'model = "team"\n[aliases]\nsmall = "openai:gpt-4.1-mini"\n'
        '[profiles.team]\npolicy = "round_robin"\nmembers = ["small", "anthropic/claude-sonnet-4-6"]\n'
    )
    told = asked("hello", "--no-session")
    assert (told.code, told.err) == (Exit.OK, "")
    assert cloud.bodies()[-1]["model"] == "gpt-4.1-mini"
    asked("hello", "-m", "small")
    assert cloud.bodies()[-1]["model"] == "gpt-4.1-mini"
    asked("hello", "--provider", "anthropic", "-m", "claude-sonnet-4-6")
    assert cloud.bodies()[-1]["model"] == "claude-sonnet-4-6"
    asked("hello", "--provider", "anthropic")
    assert cloud.bodies()[-1]["model"].startswith("claude")


@pytest.mark.requirement("REQ-915-043")
def test_fallback_goes_on_where_the_first_one_fails_and_says_so(cloud: Cloud, asked: Here) -> None:
    for _ in range(3):
        cloud.fail(kind="status", status=529, provider="anthropic", retry_after=0.01)
    told = asked(
        "hi",
        "-m",
        "anthropic/claude-sonnet-4-6",
        "--fallback",
        "openai/gpt-4.1",
        "--output-format",
        "stream-json",
    )
    assert told.code == Exit.OK
    (switch,) = [event for event in lines(told.out) if event["type"] == "switch"]
    assert (switch["from"], switch["to"]) == ("anthropic/claude-sonnet-4-6", "openai/gpt-4.1")
    assert switch["reason"] == "failover"
    assert switch["error"]["status"] == 529


def test_json_is_one_result_with_the_fields_scripts_know(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Good day.")
    told = asked("hello", "--json")
    (result,) = lines(told.out)
    assert result.keys() >= {
        "type", "subtype", "is_error", "duration_ms", "num_turns", "result", "session_id", "total_cost_usd", "usage", "stop_reason",
    }  # fmt: skip
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", False)
    assert (result["result"], result["num_turns"], result["stop_reason"]) == ("Good day.", 1, "complete")
    assert result["usage"]["input_tokens"] > 0
    assert result["total_cost_usd"] > 0


def test_the_stream_tells_what_happens_in_order(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / "note.txt").write_text("seven")
    cloud.reply("Let me look.", Call("read_file", {"path": "note.txt"}))
    cloud.reply("It says seven.")
    told = asked("What does note.txt say?", "-T", "read_file", "--output-format", "stream-json")
    events = lines(told.out)
    kinds = [event["type"] for event in events]
    assert kinds == ["init", "message", "message", "tool_use", "tool_result", "message", "result"]
    assert events[0]["tools"] == ["read_file"]
    assert events[2]["content"] == "Let me look."
    assert events[3]["parameters"] == {"path": "note.txt"}
    assert events[4]["status"] == "success"
    assert "seven" in json.dumps(events[4]["output"])
    assert events[-1]["num_turns"] == 2
    assert told.err == "" or told.err.startswith("Using")


def test_partial_messages_add_up_to_the_whole(cloud: Cloud, asked: Here) -> None:
    cloud.reply("A long answer in many portions.")
    told = asked("hi", "--output-format", "stream-json", "--include-partial-messages")
    events = lines(told.out)
    deltas = [event["content"] for event in events if event["type"] == "message" and event["delta"]]
    assert len(deltas) > 1
    assert "".join(deltas) == "A long answer in many portions."


def test_words_before_a_call_are_no_answer_in_a_pipe(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Let me look.", Call("list_dir", {}))
    cloud.reply("Nothing there.")
    told = asked("look", "-T", "list_dir")
    assert told.out == "Nothing there.\n"
    assert "Let me look." in told.err
    assert "→ list_dir" in told.err


def test_tools_that_do_things_are_refused_where_nobody_can_be_asked(cloud: Cloud, asked: Here) -> None:
    wish = Call("write_file", {"path": "new.txt", "content": "x"})
    file = cloud.home.project / "new.txt"
    cloud.reply(wish)
    asked("write", "-T", "write_file")
    assert not file.exists()
    cloud.reply(wish)
    asked("write", "-T", "write_file", "--approval-mode", "plan", "--allowed-tools", "write_file")
    assert not file.exists()
    cloud.reply(wish)
    asked("write", "-T", "write_file", "--allowed-tools", "write_file")
    assert file.read_text() == "x"
    file.unlink()
    cloud.reply(wish)
    asked("write", "-T", "all", "--yolo")
    assert file.exists()


def test_without_a_sandbox_the_first_line_says_whether_commands_are_asked_about(
    asked: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Mechanism(name="none", why="not in this kernel")
    monkeypatch.setattr("segue.tools.sandbox.sandbox.mechanism_here", lambda: nothing)
    assert "every command is asked about" in asked("hello", "-T", "all").err
    told = asked("hello", "-T", "all", "--yolo").err
    assert "commands run without a question" in told
    assert "asked about" not in told


def test_a_function_of_the_users_own_is_a_tool(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / "mine.py").write_text(
        'def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'
    )
    cloud.reply(Call("add", {"a": 2, "b": 3}))
    told = asked("add", "-T", "mine.py:add")
    assert "add: 5" in told.err
    assert asked("add", "-T", "mine.py:ad").code == Exit.TOOL
    assert asked("add", "-T", "gone.py:add").code == Exit.TOOL
    assert asked("add", "-T", "raed_file").code == Exit.TOOL


def test_the_model_may_not_steer_the_terminal(cloud: Cloud, asked: Here) -> None:
    cloud.reply("safe \x1b]0;title\x07\x1b[31mwords")
    assert asked("hi").out == "safe words\n"
    cloud.reply("safe \x1b[31mwords")
    assert asked("hi", "--raw-output").out == "safe \x1b[31mwords\n"
    cloud.reply("safe \x1b[31m\x9b2Jwords")
    out = asked("hi", "--json").out
    assert not any(0x7F <= ord(letter) <= 0x9F or letter == "\x1b" for letter in out)
    assert json.loads(out)["result"] == "safe \x1b[31m\x9b2Jwords", "scripts get what was said"


@pytest.mark.requirement("REQ-915-003", "REQ-915-041")
def test_a_session_goes_on_and_a_switch_says_what_is_lost(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Noted.")
    asked("My name is Ada.")
    told = asked("-c", "Who am I?", "-m", "anthropic/claude-sonnet-4-6")
    assert told.code == Exit.OK
    assert "openai/" in told.err
    assert "→ anthropic/claude-sonnet-4-6; nothing is lost" in told.err
    assert "Ada" in json.dumps(cloud.bodies()[-1])
    again = asked("-c", "And now?")
    assert again.err == "", "the session knows its model"
    assert cloud.bodies()[-1]["model"] == "claude-sonnet-4-6"


def test_strict_refuses_a_switch_that_loses_something(cloud: Cloud, asked: Here) -> None:
    cloud.reply(Think("secret thoughts"), "Done.")
    asked("think", "-m", "anthropic/claude-sonnet-4-6", "--effort", "high")
    before = len(cloud.bodies())
    told = asked("-c", "go on", "-m", "openai/gpt-4.1", "--strict")
    assert told.code == Exit.WOULD_LOSE
    assert "would see less" in told.err
    assert len(cloud.bodies()) == before, "nothing was sent"
    assert asked("-c", "go on").code == Exit.OK
    assert cloud.bodies()[-1]["model"] == "claude-sonnet-4-6"


def test_a_fork_leaves_the_first_session_as_it_was(cloud: Cloud, asked: Here) -> None:
    asked("one")
    first = json.loads(asked("sessions", "list", "--json").out)[0]
    asked("-r", first["id"], "--fork", "two")
    sessions = json.loads(asked("sessions", "list", "--json").out)
    assert len(sessions) == 2
    assert next(info for info in sessions if info["id"] == first["id"])["turns"] == 1


def test_without_a_session_nothing_is_kept(cloud: Cloud, asked: Here) -> None:
    asked("hello", "--no-session")
    assert json.loads(asked("sessions", "list", "--json").out) == []


def test_system_prompts_and_the_projects_instructions_reach_the_model(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / "AGENTS.md").write_text("Use tabs.\n")
    asked("hi", "-s", "Be brief.", "--append-system", "Say please.", "-m", "anthropic/claude-sonnet-4-6")
    system = json.dumps(cloud.bodies()[-1]["system"])
    assert system.index("Be brief.") < system.index("Use tabs.") < system.index("Say please.")
    asked("hi", "-s", "Be brief.", "--bare", "-m", "anthropic/claude-sonnet-4-6")
    assert "tabs" not in json.dumps(cloud.bodies()[-1]["system"])


SHAPE = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'


def test_an_answer_in_a_shape_is_checked(cloud: Cloud, asked: Here) -> None:
    cloud.reply('{"n": 7}')
    told = asked("count", "--schema", SHAPE, "--json")
    assert lines(told.out)[0]["structured_output"] == {"n": 7}
    file = cloud.home.project / "shape.json"
    file.write_text(SHAPE)
    cloud.reply('{"n": "many"}')
    cloud.reply('{"n": "more"}')
    told = asked("count", "--schema", "shape.json")
    assert told.code == Exit.INPUT
    assert "does not match the schema" in told.err
    assert asked("count", "--schema", "{nonsense").code == Exit.USAGE
    assert asked("count", "--schema", "gone.json").code == Exit.USAGE


def test_a_wrong_shape_is_asked_for_once_more_and_only_the_right_one_is_the_answer(
    cloud: Cloud, asked: Here
) -> None:
    cloud.reply("Seven.")
    cloud.reply('{"n": 7}')
    told = asked("count", "--schema", SHAPE)
    assert (told.code, told.out.strip()) == (Exit.OK, '{"n": 7}')
    assert "asked for once more" in told.err
    cloud.reply("Free words.")
    assert asked("and in words?", "-c").out.strip() == "Free words."  # the schema is not part of the session


def test_the_last_message_goes_to_a_file_too(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Good day.")
    asked("hi", "--output-last-message", "out.txt")
    assert (cloud.home.project / "out.txt").read_text() == "Good day."


def test_a_turn_stops_at_its_limits_with_exit_53(cloud: Cloud, asked: Here) -> None:
    for _ in range(3):
        cloud.reply(Call("list_dir", {}))
    told = asked("look", "-T", "list_dir", "--max-turns", "2", "--json")
    (result,) = lines(told.out)
    assert told.code == Exit.TURN_LIMIT
    assert (result["subtype"], result["is_error"], result["stop_reason"]) == (
        "error_max_turns",
        True,
        "max_turns",
    )
    cloud.emulator.reset()
    cloud.reply("expensive words", Call("list_dir", {}))
    told = asked("look", "-T", "list_dir", "--max-cost", "0.000001", "--json")
    assert (told.code, lines(told.out)[0]["subtype"]) == (Exit.TURN_LIMIT, "error_max_cost")
    cloud.emulator.reset()
    cloud.reply("a slow answer that takes its time " * 10, delay=0.2)
    told = asked("slowly", "--timeout", "0.5", "--json")
    assert (told.code, lines(told.out)[0]["subtype"]) == (Exit.TURN_LIMIT, "error_timeout")
    assert asked("-c", "go on").code == Exit.OK, "the session is whole"


def test_lines_of_json_are_turns_of_one_session(cloud: Cloud, asked: Here) -> None:
    said = [
        {"type": "user", "message": {"role": "user", "content": "one"}},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ]
    stdin = "\n".join(map(json.dumps, said)) + "\n"
    told = asked("--input-format", "stream-json", "--output-format", "stream-json", stdin=stdin)
    events = lines(told.out)
    assert [event["content"] for event in events if event.get("role") == "user"] == ["one", "two"]
    results = [event for event in events if event["type"] == "result"]
    assert len(results) == 2
    assert results[0]["session_id"] == results[1]["session_id"]
    assert len(cloud.bodies()[-1]["messages"]) == 3


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)]
)
def test_a_signal_ends_the_run_and_leaves_a_whole_session(
    cloud: Cloud, number: signal.Signals, code: Exit
) -> None:
    cloud.reply(Call("run_shell", {"command": "sleep 30"}), Call("list_dir", {}))
    home = cloud.home
    words = [sys.executable, "-m", "segue", "go", "-T", "all", "--yolo", "--output-format", "stream-json"]
    with subprocess.Popen(  # noqa: S603
        words,
        cwd=home.project,
        env=home.full(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while b'"tool_result"' not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(number)
        rest, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert b"Traceback" not in err
    result = lines(rest.decode())[-1]
    assert (result["type"], result["subtype"], result["stop_reason"]) == (
        "result",
        "error_cancelled",
        "cancelled",
    )
    told = home.run("-c", "go on", "-m", "anthropic/claude-sonnet-4-6")
    assert told.code == Exit.OK, told.err
    assert cloud.emulator.log[-1].verdict == "accepted"


def test_a_reader_who_goes_away_ends_the_answer_without_noise(cloud: Cloud) -> None:
    cloud.reply("word " * 5000)
    home = cloud.home
    with subprocess.Popen(
        [sys.executable, "-m", "segue", "-q", "hello"],
        cwd=home.project, env=home.full(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(20) == Exit.OK
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("models", "--help"), ("sessions", "--help"), ("health", "--help")]
)
def test_help_loads_nothing_heavy(cloud: Cloud, words: tuple[str, ...]) -> None:
    program = (
        "import sys; from segue.cli import main; main(sys.argv[1:]); sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, *words],
        env=cloud.home.full(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    heavy = {
        "aiohttp",
        "rich",
        "prompt_toolkit",
        "mcp",
        "sqlite3",
        "jsonschema_rs",
        "keyring",
        "segue.dialects",
        "msgspec",
    }
    assert loaded & heavy == set()
    assert len(words) > 1 or "asyncio" not in loaded


@pytest.mark.parametrize("model", ["openai/gpt-4.1", "openai/gpt-5.5"])
def test_a_model_that_may_not_be_streamed_answers_all_the_same(cloud: Cloud, asked: Here, model: str) -> None:
    cloud.emulator.unstreamed = ("*",)
    cloud.reply("Good day.")
    told = asked("-m", model, "--json", "hello")
    assert told.code == Exit.OK
    assert lines(told.out)[0]["result"] == "Good day."
    assert told.err == ""
    cloud.reply("Good evening.")
    assert asked("-m", model, "hello").out == "Good evening.\n"
