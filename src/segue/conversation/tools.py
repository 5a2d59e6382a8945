"""The tools a model may call, and how free it is in choosing."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct


@final
class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as it is described to the model. `parameters` is a JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


@final
class Named(Struct, frozen=True, tag="named"):
    """The model must call this very tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Named
