"""How a reply should be made. `None` always means: not asked for, so nothing is sent."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.extra import Extra
from segue.conversation.tools import ToolChoice
from segue.errors import UsageError

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@final
class Options(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything about a request that is neither the conversation nor the tools."""

    model: str = ""
    stream: bool | None = None
    """False: ask for the whole reply at once. None: the better way for this target."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    effort: Effort | None = None
    """How hard the model should think; `none` asks it not to."""
    thinking_budget: int | None = None
    """Tokens the model may think, where a target counts them."""
    response_schema: dict[str, Any] | None = None
    """JSON Schema that the answer must follow."""
    extra: dict[str, Any] | None = None
    """Fields of the target's own, sent as they are. Whoever sets them knows the target."""
    own: Extra | None = None
    """What the request these were read from has of its wire's own; that wire gets it back, no other does."""

    def __post_init__(self) -> None:
        schema: Any = self.response_schema
        if schema is not None and not isinstance(schema, dict):
            raise UsageError(
                f"response_schema is a JSON Schema, not {getattr(schema, '__name__', schema)!s}.",
                code="bad_schema",
                path="response_schema",
                hint="Give a dict. For a type, write send(…, output=Type).",
            )

    def over(self, defaults: Options) -> Options:
        """These, and the defaults wherever nothing is set."""
        if self == NO_OPTIONS:
            return defaults
        own = {
            field: value
            for field in self.__struct_fields__
            if (value := getattr(self, field)) != getattr(NO_OPTIONS, field)
        }
        return structs.replace(defaults, **own)


NO_OPTIONS = Options()
"""Nothing is asked for."""
