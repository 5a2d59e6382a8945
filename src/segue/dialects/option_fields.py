"""The options that are a field each on most wires, as a table: which field takes which option, and within what bounds.

What a wire asks for in a way of its own (thinking, tools, the shape of an answer) is no row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

from msgspec import Struct

from segue.dialects.request_fields import number, texts, whole

_Reader: TypeAlias = Callable[[Any, str], Any]
_READERS: Mapping[str, _Reader] = {
    "max_tokens": whole,
    "temperature": number,
    "top_p": number,
    "top_k": whole,
    "repeat_penalty": number,
    "seed": whole,
    "stop": texts,
}


@final
class OptionField(Struct, frozen=True):
    """One row: an option of ours and the field that takes it."""

    option: str
    field: str
    least: int | None = None
    most: int | None = None
    """What the target takes; of a value beyond it, the nearest is sent."""

    def fitted(self, value: Any) -> tuple[Any, str]:
        """The value that is sent, and why it is another one; empty if it is not."""
        least, most = self.least, self.most
        if least is not None and value < least:
            return least, f"the target takes {least} to {most}; sent as {least}"
        if most is not None and value > most:
            bound = (
                f"{most} is the most the target takes"
                if least is None
                else f"the target takes {least} to {most}"
            )
            return most, f"{bound}; sent as {most}"
        return value, ""


def take_options(rows: Sequence[OptionField], held: dict[str, Any], place: str = "") -> dict[str, Any]:
    """The options that an object of a request holds, taken out of it. `place`: the path to that object, with a dot."""
    found = {row.option: (held.pop(row.field, None), f"{place}{row.field}") for row in rows}
    return {option: _READERS[option](value, path) for option, (value, path) in found.items()}
