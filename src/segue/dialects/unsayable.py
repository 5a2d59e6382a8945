"""The one error of encoding: a transcript holds what a wire cannot say. It is refused, never repaired here."""

from __future__ import annotations

from segue.errors import TranscriptError


def unsayable(wire: str, what: str, index: int | None = None) -> TranscriptError:
    """`index`: the step that holds it; none if it is the transcript as such."""
    return TranscriptError(
        f"The {wire} wire cannot say {what}.",
        code="rendered_for_another_target",
        path="" if index is None else f"steps[{index}]",
        hint="Render the conversation with the rules of this dialect first.",
    )
