"""Whether what a plugin offers can be used: each kind as it would be used, and never in place of something of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.plugins import Contribution


def check(one: Contribution) -> None:
    """Raises UsageError if it is not used."""
    match one.kind:
        case "provider":
            from segue.providers.addresses import addresses  # noqa: PLC0415 - only this kind needs it
            from segue.providers.config import IN_PROCESS  # noqa: PLC0415
            from segue.providers.registry import plugin_provider  # noqa: PLC0415

            _refuse_ours(one, {*addresses().providers, *IN_PROCESS})
            plugin_provider(one)
        case "tool":
            from segue.cli.tool_loader import plugin_tools, reserved_names  # noqa: PLC0415

            _refuse_ours(one, reserved_names())
            plugin_tools(one)
        case "template":
            from segue.config.templates import plugin_template  # noqa: PLC0415

            plugin_template(one)
        case _:
            from segue.cli.command_table import COMMANDS, plugin_command  # noqa: PLC0415

            _refuse_ours(one, set(COMMANDS))
            plugin_command(one)


def _refuse_ours(one: Contribution, taken: set[str]) -> None:
    if one.name in taken:
        raise UsageError(f'segue has a {one.kind} "{one.name}" of its own.', code="plugin_name_taken")
