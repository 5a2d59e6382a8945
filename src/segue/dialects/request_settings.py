"""What encoding the settings of a request has in common on every wire: the body, the repairs, and the choices that
depend on what is known about the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.json_safe import ensure_json_safe
from segue.conversation.tools import Named
from segue.dialects.own_fields import own
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from segue.conversation.options import Effort, Options
    from segue.conversation.tools import ToolChoice, ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import Transcript


def offered_tools(
    tools: Sequence[ToolSpec], dialect: str, repairs: list[Repair]
) -> list[tuple[int, ToolSpec]]:
    """The tools that a wire can be offered, with their positions: not those that another provider runs."""
    offered: list[tuple[int, ToolSpec]] = []
    for index, tool in enumerate(tools):
        if tool.kind == "server" and own(tool.extra, dialect) is None:
            repairs.append(Repair("tool_not_offered", dialect, f"tools[{index}]", decision=f'"{tool.name}"'))
        else:
            offered.append((index, tool))
    return offered


class RequestSettings:
    """Collects everything in one request beside the messages, and notes what the target cannot be sent."""

    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        self.transcript = transcript
        self.options = options
        self.card = card
        self.extra: dict[str, Any] = dict(ensure_json_safe(options.extra or {}))
        self.body: dict[str, Any] = {}
        self.repairs: list[Repair] = []

    def note(self, kind: Kind, path: str, decision: str = "") -> None:
        self.repairs.append(Repair(kind, self.transcript.target.dialect, path, decision=decision))

    def not_sent(self, option: str, decision: str = "") -> None:
        self.note("option_not_sent", f"options.{option}", decision)

    def output_limit(self) -> int | None:
        """The limit on what the model writes, as far as it can write; None if none was asked for."""
        asked, most = self.options.max_tokens, self.card.output
        if asked is None or most is None or asked <= most:
            return asked
        self.not_sent("max_tokens", f"the model writes at most {most} tokens; sent as {most}")
        return most

    def add_extra(self, encoded: Container[str]) -> None:
        """Fields of the target's own, but for those that are `encoded` already or are not sent."""
        for key, value in self.extra.items():
            if key not in encoded:
                self.body.setdefault(key, value)

    def tool_name(self, name: str) -> str:
        return self.transcript.names.get(name, name)

    def takes(self, tools: Sequence[object]) -> bool:
        """Whether there are tools, and the model takes them."""
        if not tools:
            if self.options.tool_choice not in (None, "auto", "none"):
                self.not_sent("tool_choice", "there are no tools")
            return False
        if not self.card.tools:
            self.note("option_not_sent", "tools", "the model takes no tools")
        return self.card.tools

    def offered(self, tools: Sequence[ToolSpec]) -> list[tuple[int, ToolSpec]]:
        return offered_tools(tools, self.transcript.target.dialect, self.repairs)

    def tool_schema(
        self, tool: ToolSpec, index: int, flavour: Callable[[Any], tuple[dict[str, Any], list[str]]]
    ) -> dict[str, Any]:
        """The parameters of a tool in the target's flavour of JSON Schema."""
        schema, lost = flavour(tool.parameters)
        if lost:
            self.note("schema_reduced", f"tools[{index}]", "; ".join(lost))
        return schema

    def tool_choice(self) -> ToolChoice | None:
        """The choice that was asked for; a free one where the model refuses to be forced."""
        choice = self.options.tool_choice
        if not self.card.forced_choice and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the model refuses a forced choice")
            return "auto"
        return choice

    def nearest_level(self, effort: Effort, levels: Sequence[str], rank: int) -> str:
        """The level of this rank, or the nearest that the model has."""
        known = [level for level in levels if not self.card.efforts or level in self.card.efforts]
        level = min(known, key=lambda name: abs(levels.index(name) - rank), default=levels[rank])
        return self._noted(level, effort)

    def level_below(self, effort: Effort, levels: Sequence[str], known: Container[str]) -> str:
        """The level that was asked for, or the nearest below it that is known, or the lowest."""
        fitting = [level for level in levels if level in known]
        rank = levels.index(effort) if effort in levels else 0
        below = [level for level in fitting if levels.index(level) <= rank]
        return self._noted((below[-1:] or fitting[:1] or [effort])[0], effort)

    def _noted(self, level: str, effort: Effort) -> str:
        if level != effort:
            self.not_sent("effort", f'the model does not know "{effort}"; sent as "{level}"')
        return level
