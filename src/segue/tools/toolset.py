"""The tools of one chat: by name, as models see them, and who decides about their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.tools.definition import Approves, Tool


@final
class ToolSet:
    """Never changes: other tools are another set."""

    def __init__(self, tools: Iterable[Tool] = (), approval: Approves | None = None) -> None:
        """Without `approval` every call may run."""
        self.by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self.by_name:
                raise UsageError(
                    f'Two tools are called "{tool.spec.name}".',
                    code="duplicate_tool",
                    hint="Give one of them another name.",
                )
            self.by_name[tool.spec.name] = tool
        self.specs = tuple(tool.spec for tool in self.by_name.values())
        self.approval = approval
