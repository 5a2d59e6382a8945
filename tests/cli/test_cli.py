"""The command line as a user meets it: real processes, real pipes, and the documented exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from interop.requests import ALL, anthropic, openai_chat
from interop.session_samples import claude_code
from segue.cli.exit_codes import Exit


def segue(
    *words: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", "import sys; from segue.cli import main; sys.exit(main())", *words],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def broken() -> dict[str, Any]:
    body = openai_chat()
    body["messages"] = [*body["messages"][:4], {"role": "user", "content": "stop"}]
    return body


@pytest.fixture
def broken_file(tmp_path: Path) -> Path:
    file = tmp_path / "chat.json"
    file.write_bytes(as_bytes(broken()))
    return file


def test_version_and_help() -> None:
    assert segue("--version").stdout.decode().strip() == f"segue {version('segue-llm')}"
    told = segue("--help")
    assert told.returncode == Exit.OK
    assert b"convert" in told.stdout
    assert b"doctor" in told.stdout


def test_the_version_is_told_without_loading_anything_heavy() -> None:
    code = "import sys; from segue.cli import main; main(['--version']); print(sorted(sys.modules))"
    told = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=60
    )
    assert b"'msgspec" not in told.stdout
    assert b"'segue.dialects" not in told.stdout
    assert b"'asyncio'" not in told.stdout


@pytest.mark.parametrize(
    "words",
    [("docter",), ("--wrong",), ("convert", "--wrong"), ("convert", "--to", "klingon"), ("doctor", "--fix")],
)
def test_wrong_usage_is_exit_2_with_a_message_and_no_traceback(words: tuple[str, ...]) -> None:
    told = segue(*words, stdin=as_bytes(openai_chat()))
    assert told.returncode == Exit.USAGE
    assert told.stdout == b""
    assert told.stderr
    assert b"Traceback" not in told.stderr


def test_a_missing_file_is_exit_2() -> None:
    told = segue("convert", "--to", "gemini", "nowhere.json")
    assert told.returncode == Exit.USAGE
    assert b"nowhere.json" in told.stderr


def test_convert_writes_the_request_and_nothing_else_on_stdout(broken_file: Path) -> None:
    told = segue("convert", "--to", "anthropic", "--model", "claude-opus-5", str(broken_file))
    assert told.returncode == Exit.OK
    assert json.loads(told.stdout)["model"] == "claude-opus-5"
    assert b"call without a result" in told.stderr


def test_convert_reads_stdin_and_tells_the_default_model() -> None:
    told = segue("convert", "--to", "mistral", "-", stdin=as_bytes(openai_chat()))
    assert json.loads(told.stdout)["model"] == "mistral-large-latest"
    assert b"note: No model was named" in told.stderr


def test_convert_writes_a_report(tmp_path: Path, broken_file: Path) -> None:
    report = tmp_path / "report.json"
    segue("convert", "--to", "gemini", "--report", str(report), str(broken_file))
    told = json.loads(report.read_text())
    assert (told["from"], told["to"]) == ("openai_chat", "gemini")
    assert any(repair["kind"] == "call_closed" for repair in told["repairs"])


def test_strict_is_exit_62_and_what_cannot_be_read_is_61() -> None:
    lossy = segue("convert", "--to", "openai_chat", "--strict", stdin=as_bytes(anthropic()))
    assert (lossy.returncode, lossy.stdout) == (Exit.WOULD_LOSE, b"")
    unreadable = segue("convert", "--to", "openai_chat", stdin=b"{cut off")
    assert (unreadable.returncode, unreadable.stdout) == (Exit.UNRENDERABLE, b"")
    empty = segue("convert", "--to", "anthropic", "--from", "openai_chat", stdin=b'{"messages":[]}')
    assert empty.returncode == Exit.UNRENDERABLE


def test_debug_shows_where_an_error_came_from() -> None:
    assert b"Traceback" in segue("--debug", "convert", "--to", "klingon", stdin=b"{}").stderr


def test_convert_there_and_back_through_our_own_form() -> None:
    document = segue("convert", "--to", "conversation", stdin=as_bytes(anthropic())).stdout
    back = segue("convert", "--from", "conversation", "--to", "anthropic", stdin=document)
    direct = segue("convert", "--to", "anthropic", stdin=as_bytes(anthropic()))
    assert json.loads(back.stdout) == json.loads(direct.stdout)


def test_a_stream_of_cases_is_answered_line_by_line() -> None:
    cases = [{"id": name, "from": name, "to": "anthropic", "request": body} for name, body in ALL.items()]
    told = segue("convert", "--jsonl", stdin=b"\n".join(as_bytes(case) for case in cases) + b"\n{bad\n")
    answers = [json.loads(line) for line in told.stdout.splitlines()]
    assert told.returncode == Exit.OK
    assert [answer["id"] for answer in answers] == [*ALL, None]
    assert [answer["ok"] for answer in answers] == [True] * len(ALL) + [False]


def test_each_case_is_answered_before_the_next_one_is_sent() -> None:
    words = [
        sys.executable,
        "-c",
        "from segue.cli import main; main()",
        "convert",
        "--jsonl",
        "--to",
        "gemini",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(as_bytes({"id": number, "request": openai_chat()}) + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()


def test_doctor_names_what_the_provider_would_refuse(broken_file: Path) -> None:
    told = segue("doctor", str(broken_file))
    assert told.returncode == Exit.FINDINGS
    assert b"CHAT-10" in told.stdout
    assert b"must be followed by tool messages" in told.stdout
    assert b"call_rome" in told.stdout
    assert b"\x1b" not in told.stdout


def test_doctor_is_content_with_a_sound_file(tmp_path: Path) -> None:
    file = tmp_path / "sound.json"
    file.write_bytes(as_bytes(openai_chat()))
    assert segue("doctor", str(file)).returncode == Exit.OK
    assert segue("doctor", str(file), "--for", "all").returncode == Exit.OK


def test_doctor_speaks_json(broken_file: Path) -> None:
    told = json.loads(segue("doctor", str(broken_file), "--for", "anthropic", "gemini", "--json").stdout)
    assert [target["target"] for target in told["targets"]] == ["anthropic", "gemini"]
    assert told["clean"] is False
    (finding,) = [f for f in told["targets"][0]["findings"] if f["code"] == "ANT-20"]
    assert finding.keys() >= {"code", "place", "provider_error", "fix", "level", "kind"}


def test_the_file_may_stand_behind_the_targets(broken_file: Path) -> None:
    assert segue("doctor", "--for", "all", str(broken_file)).returncode == Exit.FINDINGS


@pytest.mark.parametrize("targets", [(), ("--for", "all"), ("--for", "mistral")])
def test_a_fixed_file_is_clean_and_fixing_it_again_changes_nothing(
    tmp_path: Path, broken_file: Path, targets: tuple[str, ...]
) -> None:
    before = broken_file.read_bytes()
    out, again = tmp_path / "fixed.json", tmp_path / "again.json"
    assert segue("doctor", str(broken_file), *targets, "--fix", str(out)).returncode == Exit.FINDINGS
    assert segue("doctor", str(out), *targets, "--fix", str(again)).returncode == Exit.OK
    assert again.read_bytes() == out.read_bytes()
    assert broken_file.read_bytes() == before


def test_what_stood_where_the_fix_is_written_is_kept(tmp_path: Path, broken_file: Path) -> None:
    before = broken_file.read_bytes()
    told = segue("doctor", str(broken_file), "--fix", str(broken_file))
    assert (tmp_path / "chat.json.1.bak").read_bytes() == before
    assert b"kept" in told.stderr
    assert segue("doctor", str(broken_file)).returncode == Exit.OK


def test_doctor_reads_a_session_file(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(claude_code())
    told = segue("doctor", str(file))
    assert told.returncode == Exit.OK
    assert b"Claude Code session" in told.stdout
    assert b"line 6: call without a result" in told.stdout
    assert b"Claude Code closes it itself" in told.stdout
    elsewhere = segue("doctor", str(file), "--for", "anthropic")
    assert elsewhere.returncode == Exit.FINDINGS
    assert b"line 3, messages[1]" in elsewhere.stdout


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{cut", Exit.USAGE),
        (b'{"messages": [{"role": "user", "content": 5}], "model": "gpt-4.1"}', Exit.FINDINGS),
    ],
)
def test_a_file_that_is_broken_in_its_form_is_a_finding(tmp_path: Path, data: bytes, code: Exit) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(data)
    told = segue("doctor", str(file), "--fix", str(tmp_path / "out.json"))
    assert told.returncode == code
    assert b"fix: none" in told.stdout
    assert not (tmp_path / "out.json").exists()


def test_what_a_file_holds_cannot_steer_the_terminal(tmp_path: Path) -> None:
    body = broken()
    body["messages"][2]["tool_calls"][1]["id"] = "\x1b[2Jevil"
    file = tmp_path / "evil.json"
    file.write_bytes(as_bytes(body))
    assert b"\x1b" not in segue("doctor", str(file)).stdout
    assert b"\x1b" not in segue("convert", "--to", "gemini", str(file)).stderr


def test_a_reader_who_goes_away_is_no_error() -> None:
    code = "from segue.cli import main; raise SystemExit(main())"
    cases = as_bytes({"id": 1, "to": "gemini", "request": openai_chat()}) + b"\n"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, "convert", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(cases)
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        try:
            process.stdin.write(cases * 200)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert b"Traceback" not in process.stderr.read()
