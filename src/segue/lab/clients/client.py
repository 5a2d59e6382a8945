"""What a client of any wire has in common: a history in that wire's own form, to which each reply is added as it came."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel."""
PDF = base64.b64encode(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
).decode()
"""One empty page."""
TOOLS: dict[str, dict[str, Any]] = {
    name: {
        "type": "object",
        "properties": {argument: {"type": "string", "description": what}},
        "required": [argument],
        "additionalProperties": False,
    }
    for name, argument, what in (
        ("get_weather", "city", "the city"),
        ("get_time", "city", "the city"),
        ("read_file", "path", "the file"),
    )
}
"""What a scenario can offer to the model."""


class Called(Struct, frozen=True):
    """A call as the client got it."""

    id: str
    name: str
    arguments: str
    """JSON, as the wire had it."""


class UserWords(Struct, frozen=True, kw_only=True):
    """What the user said."""

    text: str
    image: bool = False
    document: bool = False
    cached: bool = False
    """Mark it as the end of what to cache, on a wire with such marks."""


class Given(Struct, frozen=True):
    """What a tool returned for a call."""

    call: Called
    text: str
    failed: bool = False
    """Marked so on a wire with such marks."""


class TokenCounts(Struct, frozen=True):
    """Tokens of a reply, all of the input included."""

    input: int
    output: int
    cached: int = 0


class ClientAnswer(Struct, frozen=True, kw_only=True):
    """What came back for one request."""

    status: int = 200
    text: str = ""
    thoughts: str = ""
    calls: tuple[Called, ...] = ()
    usage: TokenCounts | None = None
    finish: str = ""
    """The wire's own word for how the reply ended; empty if it never said."""
    error: str = ""
    """The wire's own error, or why this is none of its replies."""
    native: Any = None
    """What a client adds to its history."""


class NextRequest(Struct, frozen=True, kw_only=True):
    """What the client wants of the next request, whatever its wire is."""

    model: str
    stream: bool = False
    tools: tuple[str, ...] = ()
    thinking: bool = False
    schema: Mapping[str, Any] | None = None
    refers: bool = False
    """Send the new part alone, with a reference to what came before."""


class LabClient(ABC):
    """A program of one wire."""

    wire: str
    key_header = "authorization"

    def __init__(self) -> None:
        self.history: list[Any] = []
        self.sent = 0
        """How much of the history went out with earlier requests."""
        self.last: ClientAnswer | None = None

    @abstractmethod
    def path(self, request: NextRequest, /) -> str: ...

    @abstractmethod
    def body(self, request: NextRequest) -> dict[str, Any]: ...

    @abstractmethod
    def say(self, said: UserWords) -> None:
        """Add what the user said."""

    @abstractmethod
    def give(self, results: Sequence[Given]) -> None:
        """Add what the tools returned."""

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        """A whole reply."""

    @abstractmethod
    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer: ...

    def error_of(self, body: Mapping[str, Any]) -> str:
        """The message of this wire's error envelope; empty if it is none. Both wires of OpenAI have this one."""
        error = body.get("error")
        return str(error.get("message") or "") if isinstance(error, dict) else ""

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "authorization": f"Bearer {key}"}

    def take(self, answer: ClientAnswer) -> None:
        """Add a reply to the history."""
        self.last = answer
        if answer.native is not None:
            self.history.append(answer.native)

    def decode(self, status: int, content_type: str, raw: bytes) -> ClientAnswer:
        """Any bytes that a gateway may send."""
        try:
            if "event-stream" in content_type:
                return self.read_stream(list(events_of(raw)))
            body = json.loads(raw)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            return ClientAnswer(status=status, error=f"not a reply of this wire: {error!r}: {raw[:200]!r}")
        if status >= 400:
            words = self.error_of(body) if isinstance(body, dict) else ""
            return ClientAnswer(status=status, error=words or f"not an error of this wire: {raw[:200]!r}")
        try:
            return self.read(body)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            return ClientAnswer(status=status, error=f"not a reply of this wire: {error!r}: {raw[:200]!r}")


class CountingClient(LabClient):
    """A program of a wire that also counts the tokens of a request."""

    @abstractmethod
    def count_path(self, request: NextRequest, /) -> str: ...

    @abstractmethod
    def count_body(self, request: NextRequest, /) -> dict[str, Any]: ...

    @abstractmethod
    def read_count(self, body: Mapping[str, Any]) -> int: ...


def events_of(raw: bytes) -> Iterator[dict[str, Any]]:
    """The events of a stream; an event that is no JSON object is an error."""
    for frame in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data and data != b"[DONE]":
            event = json.loads(data)
            if not isinstance(event, dict):
                raise TypeError("an event is no object")
            yield event
        elif data:
            yield {"done": True}


def merged(whole: Any, delta: Any) -> Any:
    """Streamed JSON put together: texts are joined, lists by their `index`, objects by key."""
    if isinstance(whole, dict) and isinstance(delta, dict):
        joined = dict(whole)
        for key, value in delta.items():
            fixed = key in ("index", "type", "id", "role", "name") and whole.get(key)
            joined[key] = whole[key] if fixed else merged(whole.get(key), value)
        return joined
    if isinstance(whole, list) and isinstance(delta, list):
        return _merged_lists(whole, delta)
    if isinstance(whole, str) and isinstance(delta, str):
        return whole + delta
    return whole if delta is None else delta


def _merged_lists(whole: list[Any], delta: list[Any]) -> list[Any]:
    joined = list(whole)
    for item in delta:
        index = item.get("index") if isinstance(item, dict) else None
        if isinstance(index, int) and index < len(joined):
            joined[index] = merged(joined[index], item)
        else:
            joined.append(item)
    return joined
