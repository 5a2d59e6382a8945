"""The tools a model may call, and how free it is in choosing."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.extra import Extra

ToolKind: TypeAlias = Literal["function", "custom", "server"]
"""`custom`: takes a free text, which other wires are offered as a function of one text, ``{"input": …}``. `server`: run by the
provider whose dialect is in `extra`; no other wire is offered it."""

CUSTOM_INPUT: Final = "input"
"""The argument that holds the text for a custom tool."""


@final
class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as it is described to the model. `parameters` is a JSON Schema of an object."""

    name: str
    """Our name for it, unlike that of any other tool offered. A tool in a namespace has both names in it."""
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    kind: ToolKind = "function"
    namespace: str = ""
    """The group it was offered in, on a wire that has such; other wires are offered it under `name` alone."""
    local_name: str = ""
    """Its name inside the namespace; empty if it is in none."""
    extra: Extra | None = None
    """What its wire has beside these: all of a server's tool; a custom tool's grammar; marks for the cache."""


@final
class Named(Struct, frozen=True, tag="named"):
    """The model must call this very tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Named


def joined_name(namespace: str, name: str) -> str:
    """Our name of a tool in a namespace."""
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"
