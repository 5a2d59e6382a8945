"""The driver: grants a turn its wishes, one after another, until it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.chat.turn import Intent, Outcome, Turn
    from segue.sessions.entries import TurnFinish


async def drive(turn: Turn, grant: Callable[[Intent], Awaitable[Outcome]]) -> TurnFinish:
    """How the turn ended."""
    try:
        wish = next(turn)
        while True:
            wish = turn.send(await grant(wish))
    except StopIteration as ended:
        finish: TurnFinish = ended.value
        return finish
    finally:
        turn.close()
