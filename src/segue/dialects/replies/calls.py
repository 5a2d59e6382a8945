"""Calls on any wire: their arguments in either form, and calls that arrive in pieces and are sent whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import ToolCall
from segue.conversation.events import parse_arguments
from segue.transcript.blocks.value_text import arguments_of

if TYPE_CHECKING:
    from segue.conversation.events import CallStarted

_TEXT = msgspec.json.Decoder(str)


def arguments_text(arguments: Raw) -> str:
    """The JSON text of arguments that come as an object, or as a string that holds one."""
    data = bytes(arguments)
    if data[:1] == b'"':
        try:
            return _TEXT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # what cannot be read stays as it is
    text = data.decode("utf-8", "replace")
    return "" if text == "null" else text


def read_arguments(value: Any) -> tuple[Any, str]:
    """The arguments in a request, and the text they came in; that is empty if they came as an object."""
    if isinstance(value, str):
        return parse_arguments(value), value
    return {} if value is None else value, ""


def compact_arguments(call: ToolCall) -> Raw:
    """The arguments as an object in one line: a line break would end a frame, or the line that they stand in."""
    text = arguments_of(call)[0]
    data = text.encode()
    return Raw(msgspec.json.format(data, indent=-1) if "\n" in text or "\r" in text else data)


class PendingCall(Struct):
    """A call whose arguments still arrive, on a wire where it is sent whole."""

    native_id: str = ""
    name: str = ""
    pieces: list[str] = []

    def start(self, event: CallStarted) -> None:
        self.native_id, self.name = event.native_id or self.native_id, event.name or self.name

    def call(self) -> ToolCall:
        raw = "".join(self.pieces)
        return ToolCall("", self.name, parse_arguments(raw), raw, self.native_id)
