"""A list to pick from: arrows and Enter select, Esc cancels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.shortcuts.choice_input import ChoiceInput
from prompt_toolkit.styles import Style

from segue.cli.interactive.typed_ahead import PaintedGate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prompt_toolkit.key_binding import KeyPressEvent

_STYLE = Style.from_dict({"selected-option": "bold", "accepted selected-option": "bold"})


async def pick(title: str, options: Sequence[tuple[str, str]], *, default: str = "") -> str:
    """The value of the selected option; "" if cancelled."""
    gate, keys = PaintedGate(), KeyBindings()

    @keys.add("enter", filter=~Condition(gate.is_open), eager=True)
    def _(event: KeyPressEvent) -> None:
        """It was typed before the list could be read."""

    @keys.add("escape", eager=True)
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt)

    question: ChoiceInput[str] = ChoiceInput(
        message=title,
        options=options,
        default=default or None,
        show_numbers=False,
        style=_STYLE,
        key_bindings=keys,
    )
    application = question._create_application()
    gate.watch(application)
    try:
        return await application.run_async()
    except (KeyboardInterrupt, EOFError):
        return ""
