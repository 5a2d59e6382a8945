"""Prompts for a key, and for a yes or no. Esc and Ctrl-C cancel; what was typed before is no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from segue.cli.interactive.prompts.prompt_terminal import PaintedGate, gated_output

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent


async def read_secret(label: str) -> str:
    """A line that nobody can read on the screen; "" if cancelled."""
    return (await _read(f"{label} (not shown; esc cancels): ", is_password=True)).strip()


async def read_yes(question: str) -> bool:
    """Whether the user typed y and Enter. Everything else is no."""
    return (await _read(f"{question} y and enter: yes · enter: no  ")).strip().lower() in ("y", "yes")


async def _read(label: str, *, is_password: bool = False) -> str:
    gate, keys = PaintedGate(), KeyBindings()
    early = ~Condition(gate.is_open)

    @keys.add("<any>", filter=early, eager=True)
    @keys.add("enter", filter=early, eager=True)
    def _(event: KeyPressEvent) -> None:
        """It was typed before the prompt could be read."""

    @keys.add("escape", eager=True)
    @keys.add("c-c", eager=True)
    @keys.add("c-d", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result="")

    session: PromptSession[str] = PromptSession(
        key_bindings=keys, history=InMemoryHistory(), output=gated_output()
    )
    gate.watch(session.app)
    return await session.prompt_async(label, is_password=is_password)
