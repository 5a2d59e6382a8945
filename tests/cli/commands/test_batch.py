"""`segue batch` as a user runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from segue.emulators.faults import Fault

if TYPE_CHECKING:
    from cli.cli_runs import Cloud, Here

FILE = '{"id": "a", "prompt": "hi"}\n{"messages": [{"role": "user", "content": "hello"}]}\n'


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def write(cloud: Cloud, text: str = FILE) -> None:
    (cloud.home.project / "in.jsonl").write_text(text)


def test_a_file_is_sent_and_its_results_are_lines_in_order(cloud: Cloud, asked: Here) -> None:
    write(cloud)
    cloud.reply("first")
    cloud.reply("second")
    done = asked("batch", "run", "in.jsonl", "-m", "openai/gpt-4.1", "--poll", "0.01")
    assert done.code == 0
    results = lines(done.out)
    assert [(one["id"], one["line"], one["status"], one["text"]) for one in results] == [
        ("a", 1, "succeeded", "first"),
        ("2", 2, "succeeded", "second"),
    ]
    assert all(one["cost"] > 0 and one["usage"]["tier"] == "batch" for one in results)
    assert "2 succeeded" in done.err and "$" in done.err


def test_a_bad_line_is_named_and_nothing_is_sent(cloud: Cloud, asked: Here) -> None:
    write(cloud, '{"prompt": "hi"}\n{"prompt": 5}\n')
    done = asked("batch", "run", "in.jsonl", "-m", "openai/gpt-4.1")
    assert done.code == 2 and "line 2: Its prompt is not a text." in done.err
    assert not cloud.emulator.log


def test_a_detached_batch_is_looked_at_fetched_and_saved_later(cloud: Cloud, asked: Here) -> None:
    write(cloud)
    cloud.emulator.batch_delay = 3600
    started = asked("batch", "run", "in.jsonl", "-m", "anthropic/claude-sonnet-4-5", "--detach")
    assert started.code == 0 and not started.out and "2 running" in started.err
    [status] = json.loads(asked("batch", "status", "--json").out)
    assert (status["running"], status["source"], status["mode"]) == (2, "in.jsonl", "batch")
    assert "2 running" in asked("batch", "status").out
    open_yet = asked("batch", "results", status["id"][:6])
    assert open_yet.code == 1 and [one["status"] for one in lines(open_yet.out)] == ["open", "open"]
    cloud.emulator.batch_delay = 0
    cloud.reply("first")
    done = asked("batch", "results", "--save", "-O", "out.jsonl")
    assert done.code == 0 and not done.out
    results = lines((cloud.home.project / "out.jsonl").read_text())
    assert results[0]["text"] == "first" and results[0]["session"]
    shown = asked("sessions", "show", results[0]["session"])
    assert "hi" in shown.out and "first" in shown.out


def test_a_cancelled_batch_says_what_became_of_its_requests(cloud: Cloud, asked: Here) -> None:
    write(cloud)
    cloud.emulator.batch_delay = 3600
    asked("batch", "run", "in.jsonl", "-m", "openai/gpt-4.1", "--detach")
    assert asked("batch", "cancel").code == 0
    done = asked("batch", "results", "--wait", "--poll", "0.01")
    assert done.code == 1 and [one["status"] for one in lines(done.out)] == ["cancelled", "cancelled"]
    assert "2 cancelled" in done.err


def test_failures_are_in_their_lines_and_in_the_exit_code(cloud: Cloud, asked: Here) -> None:
    write(cloud)
    cloud.emulator.batch_faults.append(Fault(status=400))
    done = asked("batch", "run", "in.jsonl", "-m", "openai/gpt-4.1", "--poll", "0.01", "-q")
    assert done.code == 1 and not done.err
    first, second = lines(done.out)
    assert (first["status"], first["error"]["remedy"], second["status"]) == ("failed", "fix", "succeeded")


def test_options_schema_and_system_hold_for_lines_without_their_own(cloud: Cloud, asked: Here) -> None:
    write(cloud, '{"prompt": "hi"}\n{"prompt": "hi", "temperature": 1, "system": "Mine."}\n')
    schema = '{"type": "object", "properties": {}, "additionalProperties": false}'
    words = ("-s", "Be brief.", "--temperature", "0", "--schema", schema, "--poll", "0.01")
    asked("batch", "run", "in.jsonl", "-m", "anthropic/claude-sonnet-4-5", *words)
    [created] = [body for body in cloud.bodies() if "requests" in body]
    first, second = (one["params"] for one in created["requests"])
    assert (first["temperature"], second["temperature"]) == (0, 1)
    assert "Be brief." in json.dumps(first["system"]) and "Mine." in json.dumps(second["system"])
    assert "output" in json.dumps([*first]) or "schema" in json.dumps(first)


def test_a_missing_model_a_profile_and_an_unknown_batch_are_explained(cloud: Cloud, asked: Here) -> None:
    write(cloud)
    assert "Add -m" in asked("batch", "run", "in.jsonl").err
    cloud.home.configure('[profiles.fast]\nmembers = ["openai/gpt-4.1", "anthropic/claude-sonnet-4-5"]\n')
    assert "a batch goes to one" in asked("batch", "run", "in.jsonl", "-m", "fast").err
    assert "There is no batch" in asked("batch", "results", "nothing").err
    assert "There is no batch yet" in asked("batch").err
