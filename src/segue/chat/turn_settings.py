"""What holds for one turn only, as its caller gives it and as the turn uses it; its budget among it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict, final

from msgspec import Struct, structs

from segue.chat.output_type import OutputType
from segue.chat.roles import Check
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import UsageError
from segue.limits import DEFAULT_MODEL, MAX_EXCHANGES
from segue.routing.route import Route
from segue.routing.router import Router
from segue.text.suggestions import unexpected_keyword
from segue.tools.definition import ToolSet

if TYPE_CHECKING:
    from types import UnionType

    from segue.providers.models.prices import Bill
    from segue.tools.definition import Tool


OVER_BUDGET = "over_budget"
"""The code of the warning that a turn was stopped by its budget."""


@final
class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a turn. It is held against them after each exchange."""

    max_turns: int = MAX_EXCHANGES
    """Exchanges with the model."""
    max_tokens: int | None = None
    """Of input and output together."""
    max_cost: float | None = None
    """Dollars."""
    max_corrections: int = 1
    """How often the model is asked again for an answer that does not have its type, or that its check does not accept."""

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UsageError(
                f"A turn of {self.max_turns} exchanges cannot be taken.",
                code="bad_budget",
                path="max_turns",
                hint="Allow at least one.",
            )

    def exceeded(self, bill: Bill) -> str:
        """Which limit was reached; empty if none was."""
        if self.max_tokens is not None and (used := bill.usage.total_tokens or 0) >= self.max_tokens:
            return f"it has used {used} of {self.max_tokens} tokens"
        if self.max_cost is not None and (cost := bill.at_least) >= self.max_cost:
            return f"it has cost {cost:.4f} of {self.max_cost:.4f} dollars"
        return ""


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
    provider: str
    """Who answers this turn, with the `model` of that name, or with its default one."""
    system: str
    """Instead of the chat's system prompt."""
    temperature: float
    """As in `options`, like the next one."""
    max_tokens: int
    check: Check
    """Takes the answer and a `Context`; returns the answer that counts, or raises `AskAgain` with the reason why not."""


_TYPES: Final[Mapping[str, tuple[type | UnionType, str]]] = {
    "tools": (Iterable, "functions and tools"),
    "options": (Options, "Options"),
    "max_turns": (int, "a whole number"),
    "provider": (str, "the name of a provider"),
    "system": (str, "a text"),
    "temperature": (int | float, "a number"),
    "max_tokens": (int, "a whole number"),
    "check": (Callable, "a function"),  # type: ignore[dict-item]  # a class all the same
}


def check_options(
    where: str, given: Mapping[str, object], others: tuple[str, ...] = ("output", "raises")
) -> None:
    """Raises TypeError for a name that a function does not know, and UsageError for a value that cannot be meant.

    `others`: what it takes besides options of turns.
    """
    for name, value in given.items():
        if name not in TurnOptions.__annotations__:
            raise unexpected_keyword(where, name, (*TurnOptions.__annotations__, *others))
        wanted, words = _TYPES.get(name, (object, ""))
        unlikely = bool if name != "tools" else str
        if not isinstance(value, wanted) or (name in _TYPES and isinstance(value, unlikely)):
            raise UsageError(
                f"Expected {words}, not {value!r:.100}.",
                code="bad_option",
                path=name,
                hint=f"Give {words}, or leave {name} out.",
            )


def options_of(given: TurnOptions) -> Options:
    """The options of a turn, those that are named by themselves over the others."""
    named = {name: given[name] for name in ("temperature", "max_tokens") if name in given}
    return structs.replace(given.get("options", NO_OPTIONS), **named)


def model_of(given: TurnOptions) -> str | Route | Router | None:
    """Who answers the turn; None if the chat's own model does."""
    model = given.get("model")
    if not (model is None or isinstance(model, str | Route) or hasattr(model, "routes")):
        raise UsageError(
            f"Expected a name, a route or a router, not {model!r:.100}.",
            code="bad_option",
            path="model",
            hint="Write provider/model, for example anthropic/claude-sonnet-4-6.",
        )
    if "provider" not in given:
        return model
    if not isinstance(model, str | None):
        raise UsageError(
            "provider and a route are given, and only one can be meant.",
            code="bad_option",
            path="provider",
            hint="Leave provider out: the route names it.",
        )
    return f"{given['provider']}/{model or DEFAULT_MODEL}"


@final
class TurnSettings(Struct, frozen=True, kw_only=True):
    """What differs from the chat's own settings while a turn runs."""

    output: OutputType | None = None
    check: Check | None = None
    partial: bool = False
    """Somebody listens for the values of answers that are being written."""
    router: Router | None = None
    tools: ToolSet | None = None
    options: Options = Options()
    """Over those of the chat, wherever they are set."""
    system: str | None = None
    budget: Budget = Budget()
