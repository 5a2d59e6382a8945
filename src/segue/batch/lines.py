"""The lines of a file of requests: plain prompts, messages, and the batch lines of providers, each as one request.

All lines are read before anything is sent, and every bad one is named by its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
from msgspec import Struct, structs

from segue.chat.attachments import attachment, user_message
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation
from segue.conversation.options import NO_OPTIONS, Options
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.dialects.server_side.references import references_in
from segue.errors import SegueError, TranscriptError, UsageError
from segue.interop.source import AUTO, read_request
from segue.text.suggestions import suggestion

_SHOWN: Final = 10
"""Of bad lines."""
_NAMES: Final = ("id", "custom_id")
_OPTIONS: Final = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "effort",
    "thinking_budget",
)
_PROMPT: Final = ("prompt", "system", "attachments", "schema", *_NAMES, *_OPTIONS)
_URLS: Final = {"/v1/chat/completions": "openai_chat", "/v1/responses": "openai_responses"}
"""What a line of OpenAI's form asks, and its wire format."""
_FORM: Final = 'A line is {"prompt": …}, {"messages": […]}, or a batch line of OpenAI or Anthropic.'


@final
class BatchRequest(Struct, frozen=True, kw_only=True):
    """One request of a batch."""

    name: str
    """The id that its line gives it; else the number of the line."""
    line: int
    """From 1."""
    conversation: Conversation
    ledger: Ledger | None = None
    tools: tuple[ToolSpec, ...] = ()
    options: Options = NO_OPTIONS
    held_by: str = ""
    """The wire format whose provider holds files that the request names by their ids; empty if it names none."""


@final
class BadLine(Struct, frozen=True):
    """A line that cannot be sent, and why."""

    line: int
    why: str


def read_lines(data: bytes, *, folder: Path | None = None, system: str = "") -> list[BatchRequest]:
    """The requests in a file of JSON lines; empty lines are skipped. `folder`: from where relative paths of attachments
    count. `system`: for requests that have no system prompt. Raises UsageError with the numbers of all bad lines."""
    requests: list[BatchRequest] = []
    bad: list[BadLine] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            requests.append(_read_line(line, number, folder or Path.cwd()))
        except SegueError as error:
            where = f"{error.path}: " if isinstance(error, TranscriptError) and error.path else ""
            bad.append(BadLine(number, f"{where}{error.message} {error.hint}".strip()))
    bad += _repeated(requests)
    if bad:
        raise bad_lines(bad)
    if not requests:
        raise UsageError("The file holds no request.", code="empty_batch", hint=_FORM)
    return [_with_system(request, system) for request in requests] if system else requests


def bad_lines(bad: Sequence[BadLine]) -> UsageError:
    """One error for all lines that cannot be sent."""
    ordered = sorted(bad, key=lambda one: one.line)
    shown = [f"line {one.line}: {one.why}" for one in ordered[:_SHOWN]]
    more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
    lines = "1 line" if len(bad) == 1 else f"{len(bad)} lines"
    return UsageError(
        "\n".join([f"Nothing was sent: {lines} cannot be used.", *shown, *more]),
        code="bad_lines",
    )


def _repeated(requests: list[BatchRequest]) -> list[BadLine]:
    seen: dict[str, int] = {}
    bad = list[BadLine]()
    for request in requests:
        first = seen.setdefault(request.name, request.line)
        if first != request.line:
            bad.append(BadLine(request.line, f'The id "{request.name}" is that of line {first} too.'))
    return bad


def _with_system(request: BatchRequest, system: str) -> BatchRequest:
    if request.conversation.system:
        return request
    return structs.replace(request, conversation=structs.replace(request.conversation, system=system))


def _read_line(line: bytes, number: int, folder: Path) -> BatchRequest:
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"It is not JSON: {error}.", code="not_json") from error
    if not isinstance(fields, dict):
        raise UsageError("It is not a JSON object.", code="not_an_object", hint=_FORM)
    name = _name_in(fields, number)
    if "prompt" in fields:
        return _prompt(fields, name, number, folder)
    body, dialect = _body_in(fields)
    source = read_request(body, dialect)
    conversation, _ = source.adopted()
    if not conversation.messages:
        raise UsageError("It holds no message.", code="no_message")
    options = structs.replace(source.options, model="", stream=None)
    table = DIALECTS[source.dialect].server.references if source.dialect else ()
    references = references_in(source.body or {}, table, source.dialect)
    for one in references:
        if one.stands_for in ("history", "summary"):
            raise UsageError(
                f"Its {one.path} refers to messages that a server holds.",
                code="not_whole",
                path=one.path,
                hint="Write all messages into the line.",
            )
    return BatchRequest(
        held_by=source.dialect if references else "",
        name=name,
        line=number,
        conversation=conversation,
        ledger=source.ledger,
        tools=source.tools,
        options=options,
    )


def _name_in(fields: Mapping[str, Any], number: int) -> str:
    given = next((fields[key] for key in (*_NAMES, "key") if fields.get(key) is not None), number)
    if not isinstance(given, str | int) or isinstance(given, bool) or given == "":
        raise UsageError("Its id is neither a text nor a number.", code="bad_id")
    return str(given)


def _body_in(fields: dict[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The request in a line, and its wire format where the form of the line shows it."""
    url = fields.get("url")
    if url is not None:  # OpenAI
        if fields.get("method", "POST") != "POST" or url not in _URLS:
            raise UsageError(
                f"It asks {fields.get('method')} {url}, which no batch does here.",
                code="unknown_url",
                hint=f"Known are POST {' and '.join(_URLS)}.",
            )
        return _object(fields, "body"), _URLS[url]
    if "params" in fields:
        return _object(fields, "params"), "anthropic"
    if "body" in fields:
        return _object(fields, "body"), "mistral"
    if "request" in fields:
        return _object(fields, "request"), "gemini"
    body = {key: value for key, value in fields.items() if key not in (*_NAMES, "key")}
    if not any(name in body for name in ("messages", "input", "contents", "segue")):
        raise UsageError("It holds neither a prompt nor messages.", code="no_request", hint=_FORM)
    return body, AUTO


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    if not isinstance(value, Mapping):
        raise UsageError(f"Its {name} is not a JSON object.", code="not_an_object", path=name)
    return value


def _prompt(fields: dict[str, Any], name: str, number: int, folder: Path) -> BatchRequest:
    for field in fields:
        if field not in _PROMPT:
            raise UsageError(
                f'A prompt has no "{field}".',
                code="unknown_field",
                hint=suggestion(field, _PROMPT) or f"Known are: {', '.join(_PROMPT)}.",
            )
    for field in ("prompt", "system"):
        if not isinstance(fields.get(field, ""), str):
            raise UsageError(f"Its {field} is not a text.", code="not_a_text", path=field)
    files = fields.get("attachments", ())
    if not isinstance(files, list | tuple) or not all(isinstance(file, str) for file in files):
        raise UsageError("Its attachments are not a list of paths or addresses.", code="bad_attachments")
    blocks = [attachment(file if "://" in file else folder / file) for file in files]
    message = user_message((fields["prompt"], *blocks))
    return BatchRequest(
        name=name,
        line=number,
        conversation=Conversation(system=fields.get("system", "")).append(message),
        options=_options(fields),
    )


def _options(fields: Mapping[str, Any]) -> Options:
    given = {field: fields[field] for field in _OPTIONS if field in fields}
    if "schema" in fields:
        given["response_schema"] = fields["schema"]
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    try:
        return msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        field = place.strip("`").partition("[")[0]
        raise UsageError(f"Its {field or 'options'} cannot be used: {what}.", code="bad_option") from error
