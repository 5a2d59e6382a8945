"""Rules about messages: role, content, parts, the shape of calls (CHAT-01 … 07, 17 … 24, 50 … 53), and one result for
every call, at once (CHAT-10 … 15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.tools import bad_name
from segue.emulators.rules import Complaints, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.openai_chat.profile import Profile

TEXT_MAX = 10_485_760
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
PARTS: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}
FILE_KEYS = frozenset({"file_id", "file_data", "filename"})
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")


def message_complaints(message: object, index: int, profile: Profile) -> Complaints:
    path = f"messages[{index}]"
    if not isinstance(message, Mapping):
        yield errors.wrong_type("CHAT-00", path, "an object", message)
        return
    yield from unknown_role(message, path)
    yield from content_missing(message, index)
    yield from content_of_wrong_type(message, path)
    yield from content_parts(message, index)
    yield from text_too_long(message, path)
    yield from reasoning_sent_back(message, path, profile)
    yield from reasoning_not_sent_back(message, profile)
    yield from call_shapes(message, path, profile)
    yield from result_id(message, index, profile)


@rule("CHAT-01", "H")
def unknown_role(message: Mapping[str, Any], path: str) -> Complaints:
    role = message.get("role")
    if role is None:
        yield errors.missing("CHAT-01", f"{path}.role")
    elif not isinstance(role, str):
        yield errors.wrong_type("CHAT-01", f"{path}.role", "a string", role)
    elif role not in ROLES:
        yield errors.wrong_value("CHAT-01", f"{path}.role", role, ROLES)


@rule("CHAT-04", "H")
def content_missing(message: Mapping[str, Any], index: int) -> Complaints:
    """Only an assistant message that calls (or refuses, or speaks) may go without content."""
    if message.get("content") is not None:
        return
    instead = ("tool_calls", "function_call", "refusal", "audio")
    if message.get("role") == "assistant" and any(message.get(key) is not None for key in instead):
        return
    if message.get("role") == "function":
        return
    yield Refusal(
        "CHAT-04",
        "Invalid value for 'content': expected a string, got null.",
        param=f"messages.[{index}].content",
    )


@rule("CHAT-00", "H")
def content_of_wrong_type(message: Mapping[str, Any], path: str) -> Complaints:
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        yield errors.wrong_type("CHAT-00", f"{path}.content", "one of a string or array of objects", content)


@rule("CHAT-03", "H")
def content_parts(message: Mapping[str, Any], index: int) -> Complaints:
    content = message.get("content")
    if not isinstance(content, list):
        return
    if not content:
        yield errors.empty_array("CHAT-03", f"messages[{index}].content")
    for position, part in enumerate(content):
        yield from one_part(part, message, (index, position))


def one_part(part: object, message: Mapping[str, Any], place: tuple[int, int]) -> Complaints:
    path = f"messages[{place[0]}].content[{place[1]}]"
    if not isinstance(part, Mapping):
        yield errors.wrong_type("CHAT-00", path, "an object", part)
        return
    role = str(message.get("role"))
    sort = part.get("type")
    if not isinstance(sort, str):
        yield errors.missing("CHAT-00", f"{path}.type")
    elif sort == "image_url" and role != "user":
        yield image_outside_user(role, place[0])
    else:
        yield from part_of_another_role(sort, role, path)
    yield from text_part(part, path)
    yield from image_part(part, path)
    yield from file_part(part, path)


@rule("CHAT-52", "H")
def image_outside_user(role: str, index: int) -> Refusal:
    return Refusal(
        "CHAT-52",
        f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', "
        f"but this message with role '{role}' contains an image URL.",
    )


@rule("CHAT-18", "H")
@rule("CHAT-53", "H")
def part_of_another_role(sort: str, role: str, path: str) -> Complaints:
    allowed = PARTS.get(role)
    if allowed is None or sort in allowed:
        return
    if role == "tool":
        yield Refusal("CHAT-18", "Content blocks are expected to be either text or image_url type.")
    else:
        yield errors.wrong_value("CHAT-53", f"{path}.type", sort, allowed)


def text_part(part: Mapping[str, Any], path: str) -> Complaints:
    if part.get("type") != "text":
        return
    if "text" not in part:
        yield errors.missing("CHAT-00", f"{path}.text")
    elif not isinstance(part["text"], str):
        yield errors.wrong_type("CHAT-00", f"{path}.text", "a string", part["text"])


def image_part(part: Mapping[str, Any], path: str) -> Complaints:
    if part.get("type") != "image_url":
        return
    image = part.get("image_url")
    if not isinstance(image, Mapping):
        yield errors.wrong_type("CHAT-00", f"{path}.image_url", "an object", image)
    elif not isinstance(image.get("url"), str):
        yield errors.missing("CHAT-00", f"{path}.image_url.url")


@rule("CHAT-53", "H")
def file_part(part: Mapping[str, Any], path: str) -> Complaints:
    if part.get("type") != "file":
        return
    file = part.get("file")
    if not isinstance(file, Mapping):
        yield errors.missing("CHAT-53", f"{path}.file")
        return
    for key in file:
        if key not in FILE_KEYS:
            yield errors.unknown("CHAT-53", f"{path}.file.{key}")
    if "file_id" not in file and "file_data" not in file:
        yield errors.missing("CHAT-53", f"{path}.file.file_id")


@rule("CHAT-07", "M")
def text_too_long(message: Mapping[str, Any], path: str) -> Complaints:
    content = message.get("content")
    if isinstance(content, str) and len(content) > TEXT_MAX:
        yield errors.long_string("CHAT-07", f"{path}.content", TEXT_MAX, len(content), "M")


@rule("CHAT-50", "M")
def reasoning_sent_back(message: Mapping[str, Any], path: str, profile: Profile) -> Complaints:
    if profile.reasoning_fields:
        return
    for key in REASONING_KEYS:
        if key in message:
            yield errors.unknown("CHAT-50", f"{path}.{key}", "M")


@rule("CHAT-51", "H")
def reasoning_not_sent_back(message: Mapping[str, Any], profile: Profile) -> Complaints:
    if not profile.needs_reasoning_content or not message.get("tool_calls"):
        return
    if not isinstance(message.get("reasoning_content"), str):
        yield Refusal(
            "CHAT-51", "The `reasoning_content` in the thinking mode must be passed back to the API."
        )


def call_shapes(message: Mapping[str, Any], path: str, profile: Profile) -> Complaints:
    if message.get("role") != "assistant" or message.get("tool_calls") is None:
        return
    calls = message["tool_calls"]
    path = f"{path}.tool_calls"
    yield from no_calls_in_the_list(calls, path)
    for position, call in enumerate(calls if isinstance(calls, list) else ()):
        yield from one_call(call, f"{path}[{position}]", profile)


@rule("CHAT-17", "H")
def no_calls_in_the_list(calls: object, path: str) -> Complaints:
    if calls == []:
        yield errors.empty_array("CHAT-17", path)
    elif not isinstance(calls, list):
        yield errors.wrong_type("CHAT-17", path, "an array of objects", calls)


def one_call(call: object, path: str, profile: Profile) -> Complaints:
    if not isinstance(call, Mapping):
        yield errors.wrong_type("CHAT-00", path, "an object", call)
        return
    yield from call_id(call, path, profile)
    yield from call_type(call, path)
    if call.get("type") == "custom":
        return
    function = call.get("function")
    if not isinstance(function, Mapping):
        yield errors.missing("CHAT-24", f"{path}.function")
        return
    yield from bad_name(function.get("name"), f"{path}.function.name", pattern_confidence="M")
    yield from arguments_not_a_string(function, f"{path}.function.arguments")
    yield from arguments_not_an_object(function, path, profile)


@rule("CHAT-20", "H")
def call_id(call: Mapping[str, Any], path: str, profile: Profile) -> Complaints:
    value, most = call.get("id"), profile.tool_id_max
    if value is None:
        yield errors.missing("CHAT-24", f"{path}.id")
    elif not isinstance(value, str):
        yield errors.wrong_type("CHAT-20", f"{path}.id", "a string", value)
    elif most is not None and len(value) > most:
        yield errors.long_string("CHAT-20", f"{path}.id", most, len(value))


@rule("CHAT-24", "H")
def call_type(call: Mapping[str, Any], path: str) -> Complaints:
    sort = call.get("type")
    if sort is None:
        yield errors.missing("CHAT-24", f"{path}.type")
    elif sort not in ("function", "custom"):
        yield errors.wrong_value("CHAT-24", f"{path}.type", str(sort), ("function", "custom"))
    elif sort == "custom" and not isinstance(call.get("custom"), Mapping):
        yield errors.missing("CHAT-24", f"{path}.custom")


@rule("CHAT-22", "H")
def arguments_not_a_string(function: Mapping[str, Any], path: str) -> Complaints:
    arguments = function.get("arguments")
    if "arguments" not in function:
        yield errors.missing("CHAT-22", path)
    elif not isinstance(arguments, str):
        yield errors.wrong_type("CHAT-22", path, "a string", arguments)


@rule("CHAT-23", "M")
def arguments_not_an_object(function: Mapping[str, Any], path: str, profile: Profile) -> Complaints:
    """OpenAI does not read arguments of the history again; nearly every compatible server does."""
    arguments = function.get("arguments")
    if not profile.reparse_arguments or not isinstance(arguments, str):
        return
    try:
        parsed = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        parsed = None
    if not isinstance(parsed, dict):
        dotted = path.replace("[", ".").replace("]", "")
        yield Refusal(
            "CHAT-23",
            f"{dotted}.function.arguments: arguments must be a valid JSON object string",
            confidence="M",
        )


@rule("CHAT-14", "M")
def result_id(message: Mapping[str, Any], index: int, profile: Profile) -> Complaints:
    if message.get("role") != "tool":
        return
    value, most = message.get("tool_call_id"), profile.tool_id_max
    path = f"messages[{index}].tool_call_id"
    if value is None:
        yield Refusal(
            "CHAT-14",
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            param=f"messages.[{index}]",
            confidence="M",
        )
    elif not isinstance(value, str):
        yield errors.wrong_type("CHAT-14", path, "a string", value)
    elif most is not None and len(value) > most:
        yield errors.long_string("CHAT-20", path, most, len(value), "M")


class _Group:
    """The calls of one assistant message and which of them are answered, by the index of the answer."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.answered: dict[str, int] = {}

    @property
    def unanswered(self) -> list[str]:
        return [call_id for call_id in dict.fromkeys(self.ids) if call_id not in self.answered]


def pairing_complaints(messages: Sequence[object]) -> Complaints:
    group: _Group | None = None
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "tool":
            yield from stray_result(group, index)
            yield from result_of_no_call(group, message, index)
            yield from second_result(group, message, index)
            _note_answer(group, message, index)
            continue
        yield from unanswered_calls(group, index)
        group = _group(message)
    yield from unanswered_calls(group, len(messages))


def _group(message: Mapping[str, Any]) -> _Group | None:
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list) or not calls:
        return None
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)]
    return _Group([call_id for call_id in ids if isinstance(call_id, str)])


def _note_answer(group: _Group | None, message: Mapping[str, Any], index: int) -> None:
    call_id = message.get("tool_call_id")
    if group is not None and isinstance(call_id, str):
        group.answered.setdefault(call_id, index)


@rule("CHAT-10", "H")
@rule("CHAT-15", "M")
@rule("CHAT-19", "H")
def unanswered_calls(group: _Group | None, index: int) -> Complaints:
    if group is not None and group.unanswered:
        yield Refusal(
            "CHAT-10",
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(group.unanswered),
            param=f"messages.[{index}].role",
        )


@rule("CHAT-11", "H")
def stray_result(group: _Group | None, index: int) -> Complaints:
    if group is None:
        yield Refusal(
            "CHAT-11",
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            param=f"messages.[{index}].role",
        )


@rule("CHAT-12", "M")
def result_of_no_call(group: _Group | None, message: Mapping[str, Any], index: int) -> Complaints:
    call_id = message.get("tool_call_id")
    if group is not None and isinstance(call_id, str) and call_id not in group.ids:
        yield Refusal(
            "CHAT-12",
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message.",
            param=f"messages.[{index}].tool_call_id",
            confidence="M",
        )


@rule("CHAT-13", "H")
def second_result(group: _Group | None, message: Mapping[str, Any], index: int) -> Complaints:
    call_id = message.get("tool_call_id")
    if group is None or not isinstance(call_id, str):
        return
    if call_id in group.ids and call_id in group.answered:
        yield Refusal(
            "CHAT-13",
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in "
            f"messages[{group.answered[call_id]}] and messages[{index}].",
            param=f"messages.[{index}].tool_call_id",
        )
