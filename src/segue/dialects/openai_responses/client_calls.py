"""Calls beside functions that the client performs, and the output items that answer them, each kind by its own.

To every other wire such a call is one of a tool like any other, and its output a text with what it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from msgspec import structs

from segue.dialects.openai_responses import wire
from segue.dialects.requests.data_urls import media_from, url_of
from segue.dialects.requests.json_fields import text as text_in
from segue.dialects.requests.messages import outcome_text
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.outcomes import NOTES
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Media
    from segue.conversation.extra import Extra
    from segue.transcript.steps import Completion

FUNCTION_CALL: Final = "function_call"
CUSTOM_CALL: Final = "custom_tool_call"
"""A call of a custom tool, with a free text."""
_SHELL: Final = "shell_call"
_LOCAL_SHELL: Final = "local_shell_call"
_PATCH: Final = "apply_patch_call"
_COMPUTER: Final = "computer_call"

CLIENT_CALLS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    CUSTOM_CALL: ("", ("input",)),
    _LOCAL_SHELL: ("local_shell", ("action",)),
    _SHELL: ("shell", ("action",)),
    _PATCH: ("apply_patch", ("operation",)),
    _COMPUTER: ("computer", ("action", "actions")),
}
"""The tool's name, unless the item names it, and the fields that hold what it is given."""
_OUTPUT: Final = "_output"
_BLANK: Final = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
"""A screenshot where there is none: the output of a computer must show something."""


@final
class ClientCall(NamedTuple):
    """A call of such a kind, as every wire can be told it."""

    call_id: str
    name: str
    arguments: Any


def call_of(item: dict[str, Any]) -> ClientCall | None:
    """None if the item is no call of such a kind, or the provider performs it itself."""
    kind = item.get("type")
    known = CLIENT_CALLS.get(kind) if isinstance(kind, str) else None
    if known is None or runs_there(item):
        return None
    name, fields = known
    call_id = item.get("call_id")
    given = {field: item[field] for field in fields if item.get(field) is not None}
    # What stands for all that the tool is given is its arguments; a text or a list has to be one of them.
    only = given.get(fields[0]) if len(given) == 1 and kind != CUSTOM_CALL else None
    whole = only if isinstance(only, dict) else given
    return ClientCall(call_id if isinstance(call_id, str) else "", wire.name_of(item) or name, whole)


def runs_there(item: dict[str, Any]) -> bool:
    """Whether the provider performs the call itself, in a container of its own."""
    place = item.get("environment")
    return isinstance(place, dict) and str(place.get("type", "")).startswith("container")


def performed_there(items: Iterable[Any]) -> frozenset[str]:
    """The ids of the calls that the provider performs: their outputs are its own, too."""
    return frozenset(
        [
            item["call_id"]
            for item in items
            if isinstance(item, dict)
            and isinstance(kind := item.get("type"), str)
            and kind in CLIENT_CALLS
            and isinstance(item.get("call_id"), str)
            and runs_there(item)
        ]
    )


def is_output(kind: str) -> bool:
    """Whether an item answers a call."""
    return kind.endswith(_OUTPUT) and kind.removesuffix(_OUTPUT) in (FUNCTION_CALL, *CLIENT_CALLS)


def kind_of(extra: Extra | None) -> str:
    """Which kind of call it is, by what it has of this wire's own."""
    kind = extra.form.get("type") if extra is not None else None
    return kind if isinstance(kind, str) and kind in CLIENT_CALLS else FUNCTION_CALL


def answers(extra: Extra, kind: str) -> bool:
    """Whether an output, by what it has of its own, is of the kind that answers such a call."""
    came = extra.form.get("type", FUNCTION_CALL + _OUTPUT)
    # The output of a local shell is sent as that of a function by some clients.
    return came == kind + _OUTPUT or (kind == _LOCAL_SHELL and came == FUNCTION_CALL + _OUTPUT)


def is_named_by_id(item: dict[str, Any]) -> bool:
    """Whether an output names its call by `id`: that of a local shell may, by the official types."""
    return item.get("type") == _LOCAL_SHELL + _OUTPUT and "call_id" not in item


def has_own_form(kind: str) -> bool:
    """Whether the output of such a call is neither text nor a list."""
    return kind in (_PATCH, _COMPUTER)


def takes_output(kind: str, output: Any) -> bool:
    """Whether this can be the output of such a call."""
    if kind == _LOCAL_SHELL:
        return isinstance(output, str)
    return kind != _SHELL or (isinstance(output, list) and all(map(is_shell_part, output)))


@final
class CallOutput(NamedTuple):
    """What an output item says and shows."""

    text: str
    media: tuple[Media, ...] = ()
    failed: bool = False


def read_own_output(item: dict[str, Any], path: str) -> CallOutput | None:
    """The output of a kind that has a form of its own; None if it is text or parts, as a function's."""
    match item.get("type"):
        case "apply_patch_call_output":
            said = text_in(item.get("output"), f"{path}.output")
            failed = item.get("status") == "failed"
            return CallOutput(said or ("The patch was not applied." if failed else ""), failed=failed)
        case "computer_call_output" if isinstance(shown := item.get("output"), dict):
            url = shown.get("image_url")
            if isinstance(url, str) and url:
                return CallOutput("", (media_from(url, "image"),))
            return CallOutput(f"[{shown.get('type')}: {json_of(shown)}]")
        case _:
            return None


def as_came(extra: Extra, call_id: str, done: Completion) -> dict[str, Any] | None:
    """An output with a form of its own as it came; None if it is another one now."""
    fields: dict[str, Any] = {"type": FUNCTION_CALL + _OUTPUT, "call_id": call_id, "output": done.text}
    item = extra.written(fields)
    read = read_own_output(item, "output")
    if read is None or read.failed is not done.is_error:
        return None
    same = read.text == done.text and list(map(url_of, read.media)) == list(map(url_of, done.media))
    return item if same else None


def shell_words(part: dict[str, Any]) -> str:
    """What a shell wrote, and how it ended if not well."""
    outcome = part.get("outcome")
    outcome = outcome if isinstance(outcome, dict) else {}
    ended = ""
    if outcome.get("type") == "timeout":
        ended = "[timed out]"
    elif outcome.get("exit_code") not in (0, None):
        ended = f"[exit code {outcome['exit_code']}]"
    said = [words.rstrip("\n") for name in ("stdout", "stderr") if isinstance(words := part.get(name), str)]
    text = "\n".join(filter(None, said))
    if text in NOTES:
        return text  # where a result is missing, nothing ended
    return "\n".join(filter(None, (text, ended)))


def is_shell_part(part: Any) -> bool:
    """Whether a part without a type is what a shell wrote."""
    return (
        isinstance(part, dict) and "type" not in part and bool(part.keys() & {"stdout", "stderr", "outcome"})
    )


def write_output(kind: str, plain: wire.FunctionCallOutput, done: Completion) -> dict[str, Any]:
    """The output item of its own kind for a call; `plain` is what it would be for a function."""
    item: dict[str, Any] = {"type": kind + _OUTPUT, "call_id": plain.call_id}
    failed = done.is_error or done.reason is not None
    # Of these kinds only a computer can show something.
    said = "\n".join(filter(None, (done.text, *(describe(media).text for media in done.media))))
    match kind:
        case "shell_call":
            wrote = {"stdout": "", "stderr": said} if failed else {"stdout": said, "stderr": ""}
            outcome = {"type": "exit", "exit_code": 1 if failed else 0}
            return {**item, "output": [{**wrote, "outcome": outcome}]}
        case "apply_patch_call":
            return {**item, "status": "failed" if failed else "completed", "output": said}
        case "computer_call":
            url = url_of(done.media[0]) if done.media else _BLANK
            return {**item, "output": {"type": "computer_screenshot", "image_url": url}}
        case "local_shell_call":
            return {**item, "output": outcome_text(structs.replace(done, text=said))}
        case _:
            return {**item, "output": plain.output}
