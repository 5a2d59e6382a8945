"""What the user wants of a render, where a target leaves a choice."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from segue.transcript.text_tools.form import Form


class Policy(Struct, frozen=True):
    """Choices that are the user's, not the target's."""

    include_reasoning: bool = True
    """Whether any thought may be sent at all."""
    strip_reasoning: Literal["none", "all_but_last", "all"] = "none"
    """Of the thoughts that may be sent, which are dropped."""
    open_calls: Literal["close", "refuse"] = "close"
    """A call that is still running by the ledger: close it as interrupted, or refuse to render."""
    tool_names: tuple[str, ...] = ()
    """Names of the offered tools; they get the first claim on their own name."""
    settings_fingerprint: str = ""
    """Fingerprint of what is sent beside the messages (tools, options); part of what seals may be bound to."""
    text_form: Form | None = None
    """How calls and results are written as text; None if the target is sent native ones."""


DEFAULT = Policy()
