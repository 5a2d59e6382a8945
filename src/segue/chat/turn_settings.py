"""What holds for one turn only, as its caller gives it and as the turn uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, final

from msgspec import Struct

from segue.chat.budget import Budget
from segue.chat.output_type import OutputType
from segue.conversation.options import Options
from segue.routing.router import Router
from segue.tools.definition import ToolSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.routing.route import Route
    from segue.tools.definition import Tool


class TurnOptions(TypedDict, total=False):
    """What `send`, `stream` and `resume` take for one turn, in place of what the chat has."""

    model: str | Route | Router
    """Who answers this turn; afterwards the chat's own model does again."""
    tools: Iterable[Tool | Callable[..., Any]]
    """Instead of the chat's tools."""
    options: Options
    """Over those of the chat, wherever they are set."""
    max_turns: int
    """Exchanges with the model."""


@final
class TurnSettings(Struct, frozen=True, kw_only=True):
    """What differs from the chat's own settings while a turn runs."""

    output: OutputType | None = None
    router: Router | None = None
    tools: ToolSet | None = None
    options: Options = Options()
    """Over those of the chat, wherever they are set."""
    budget: Budget = Budget()
