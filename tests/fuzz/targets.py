"""What reads something from outside, each as a function that may raise documented errors only."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from fuzz.mutations import cuts, junk, mutated, mutated_bytes, written
from fuzz.seeds import RICH
from interop.requests import ALL
from interop.session_samples import SAMPLES
from segue.config.layers import load_settings
from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall
from segue.conversation.events import Reply, fold
from segue.conversation.json_safe import is_encodable
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.registry import DIALECTS, NAMES
from segue.dialects.streams.ndjson import LineDecoder
from segue.dialects.streams.sse import FrameDecoder
from segue.errors import SegueError
from segue.interop.convert import Flags, answer, convert
from segue.interop.doctor import examine, fix_transcript
from segue.interop.session_files import read_file
from segue.providers.config import read_provider_config
from segue.sessions.imports import read_history
from strategies.replies import in_portions

Target = Callable[[st.DataObject], None]
REQUESTS: Final = [*ALL.items(), *RICH.items()]
CONFIG: Final[dict[str, Any]] = {
    "model": "team",
    "aliases": {"fast": "groq/openai/gpt-oss-120b"},
    "profiles": {
        "team": {"members": ["openai/gpt-4.1", "fast"], "policy": "weighted", "weights": {"fast": 2}}
    },
    "providers": {
        "openai": {
            "api_key_env": "KEY",
            "timeouts": {"connect": 10},
            "limits": {"calls": 3},
            "headers": {"a": "b"},
        },
        "mine": {"base_url": "http://127.0.0.1:9000/v1", "dialect": "openai_compatible", "query": {"a": "b"}},
    },
    "approval": {"mode": "ask", "allow": ["run_shell(git status)"], "deny": ["run_shell(rm *)"]},
    "mcp": {"servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}},
    "sessions": {"keep": "sqlite"},
    "limits": {"max_turns": 10, "compact_at": 0.85},
    "gateway": {"models": {"gpt-*": "team"}, "callers": {"ci": {"key_env": "CI"}}},
    "ui": {"instructions": ["AGENTS.md"]},
}


def convert_target(data: st.DataObject) -> None:
    name, request = data.draw(st.sampled_from(REQUESTS))
    body = written(data.draw(mutated(request)))
    to = data.draw(st.sampled_from([*NAMES, "conversation"]))
    source = data.draw(st.sampled_from(["auto", name]))
    converted = convert(body, to=to, source=source)
    json.loads(converted.body)
    msgspec.json.decode(answer(written({"id": 1, "to": to, "request": json.loads(body)}), Flags(), 1))


def doctor_target(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        _, request = data.draw(st.sampled_from(REQUESTS))
        body = written(data.draw(mutated(request)))
    else:
        body = data.draw(session_files())
    targets = data.draw(st.sampled_from([(), ("all",), ("anthropic",), ("gemini", "mistral")]))
    source, lines = read_file(body)
    examination = examine(source, targets, lines=lines)
    json.dumps(examination.as_dict()).encode()
    fix_transcript(source, targets)


@st.composite
def session_files(draw: st.DrawFn) -> bytes:
    """Session files of other programs, with a line or a value changed."""
    data = draw(st.sampled_from(list(SAMPLES.values())))()
    if not data.startswith(b"{") or draw(st.integers(0, 3)) == 0:
        return draw(mutated_bytes(data))
    lines = data.splitlines()
    try:
        rows = [json.loads(line) for line in lines]
    except ValueError:
        return written(draw(mutated(json.loads(data))))
    place = draw(st.integers(0, len(rows) - 1))
    rows[place] = draw(mutated(rows[place]))
    return b"\n".join(written(row) for row in rows)


@cache
def own_journal() -> bytes:
    """A session of ours, exported."""
    call = {"type": "tool_call", "id": "c0", "name": "read", "arguments": {"path": "a"}}
    result = {"type": "tool_result", "call_id": "c0", "name": "read", "output": "text"}
    entries: list[dict[str, Any]] = [
        {"type": "session_started", "model": "openai/gpt-4.1", "system": "Be brief."},
        {"type": "user_said", "message": {"speaker": "user", "blocks": [{"type": "text", "text": "hi"}]}},
        {"type": "model_replied", "message": {"speaker": "model", "blocks": [call]}, "finish": "tool_calls"},
        {"type": "calls_scheduled", "calls": [call]},
        {"type": "call_begun", "call_id": "c0"},
        {"type": "call_ended", "result": result},
        {"type": "tools_answered", "call_ids": ["c0"]},
        {"type": "turn_ended"},
        {"type": "rewound", "to": 1},
        {"type": "settings_changed", "title": "T", "options": {"temperature": 1.0}},
    ]
    return b"\n".join(
        written({"seq": seq, "at": 1.0, "entry": entry}) for seq, entry in enumerate(entries, 1)
    )


def import_target(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        rows = [json.loads(line) for line in own_journal().splitlines()]
        place = data.draw(st.integers(0, len(rows) - 1))
        rows[place] = data.draw(mutated(rows[place]))
        read_history(b"\n".join(written(row) for row in rows))
    else:
        read_history(data.draw(st.one_of(session_files(), mutated_bytes(own_journal()))))


def config_target(data: st.DataObject) -> None:
    table = data.draw(mutated(CONFIG))
    providers = table.get("providers") if isinstance(table, dict) else None
    for name, settings in providers.items() if isinstance(providers, dict) else ():
        if isinstance(settings, dict) and is_encodable(name):
            read_provider_config(name, settings)
    text = data.draw(mutated_bytes(_as_toml(table).encode("utf-8", "replace")))
    with TemporaryDirectory() as place:
        (Path(place) / "segue.toml").write_bytes(text)
        (Path(place) / ".git").mkdir()
        sets = data.draw(
            st.lists(st.sampled_from(["limits.max_turns=x", "a.b=[", "ui=1", "=", "model=[1]"]), max_size=2)
        )
        load_settings(
            directory=Path(place), sets=sets, environment={"SEGUE_UI__MARKDOWN": str(data.draw(junk()))}
        )


def _as_toml(value: Any, path: str = "") -> str:
    """Dotted keys: whatever cannot be written so is written as JSON, which TOML may refuse."""
    if isinstance(value, dict) and value and path.count(".") < 50:
        return "".join(
            _as_toml(inner, f"{path}.{json.dumps(key)}" if path else json.dumps(key))
            for key, inner in value.items()
        )
    return f"{path or 'x'} = {json.dumps(value)}\n"


def sse_target(data: st.DataObject) -> None:
    stream = data.draw(
        mutated_bytes(b"event: a\ndata: {}\n\n: c\n\ndata: 1\ndata: 2\r\n\r\n\xef\xbb\xbfdata:x\n\n")
    )
    sizes = data.draw(cuts())
    whole, cut = FrameDecoder(), FrameDecoder()
    expected = [*whole.feed(stream), *whole.close()]
    found = [frame for portion in in_portions(stream, sizes) for frame in cut.feed(portion)]
    assert [*found, *cut.close()] == expected
    lines, pieces = LineDecoder(), LineDecoder()
    want = [*lines.feed(stream), *lines.close()]
    got = [line for portion in in_portions(stream, sizes) for line in pieces.feed(portion)]
    assert [*got, *pieces.close()] == want


@cache
def streams() -> list[tuple[str, bytes, bytes]]:
    """For every wire: a stream and a whole reply."""
    message = Message(
        "model",
        (
            Reasoning("Let me think."),
            Text("Hello ✓"),
            ToolCall("c0", "read", {"path": "a"}, '{"path":"a"}', "call_1"),
        ),
    )
    made = []
    for name, dialect in DIALECTS.items():
        origin = Origin(name, name, "", "m")
        reply = Reply(
            msgspec.structs.replace(message, origin=origin),
            "tool_calls",
            Usage(input_tokens=3, output_tokens=5),
        )
        whole = dialect.encode_reply(reply)
        encoder = dialect.new_encoder("m")
        stream = b"".join(encoder.feed(event) for event in dialect.decode_reply(whole)) + encoder.close()
        made.append((name, stream, whole))
    return made


@st.composite
def mutated_stream(draw: st.DrawFn, stream: bytes) -> bytes:
    """A stream in which the JSON of a line or two is changed."""
    lines = stream.split(b"\n")
    full = [number for number, line in enumerate(lines) if b"{" in line]
    for _ in range(draw(st.integers(1, 2))):
        number = draw(st.sampled_from(full))
        head, brace, rest = lines[number].partition(b"{")
        try:
            lines[number] = head + written(draw(mutated(json.loads(brace + rest))))
        except ValueError:
            continue
    return draw(mutated_bytes(b"\n".join(lines)))


def reply_target(data: st.DataObject) -> None:
    name, stream, whole = data.draw(st.sampled_from(streams()))
    dialect = DIALECTS[name]
    changed = data.draw(mutated_stream(stream))
    decoder = dialect.new_decoder()
    events = [event for portion in in_portions(changed, data.draw(cuts())) for event in decoder.feed(portion)]
    reply = fold([*events, *decoder.close()], Origin(name, name, "", "m"))
    dialect.encode_reply(reply)
    body = data.draw(st.one_of(mutated(json.loads(whole)).map(written), mutated_bytes(whole)))
    dialect.decode_reply(body)


def error_target(data: st.DataObject) -> None:
    error = {
        "error": {
            "message": "bad",
            "type": "x",
            "code": "y",
            "param": "z",
            "status": 429,
            "details": [{"a": 1}],
        }
    }
    body = data.draw(st.one_of(mutated(error).map(written), mutated_bytes(written(error))))
    dialect = DIALECTS[data.draw(st.sampled_from(NAMES))]
    status = data.draw(st.sampled_from([301, 400, 401, 404, 413, 429, 500, 529, 200, 999]))
    headers = data.draw(
        st.dictionaries(st.sampled_from(["retry-after", "location", "x-request-id"]), st.text(), max_size=2)
    )
    dialect.encode_error(dialect.decode_error(status, headers, body))


TARGETS: Final[dict[str, Target]] = {
    "convert": convert_target,
    "doctor": doctor_target,
    "import": import_target,
    "config": config_target,
    "sse": sse_target,
    "replies": reply_target,
    "errors": error_target,
}


def try_once(target: str, data: st.DataObject) -> None:
    """Raises whatever is no documented error."""
    try:
        TARGETS[target](data)
    except SegueError as error:
        error.message.encode("utf-8", "strict")
        error.code.encode("utf-8", "strict")
