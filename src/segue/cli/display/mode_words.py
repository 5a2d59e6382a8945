"""What an approval mode means, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from segue.tools.approval import Mode

MODE_WORDS: Final[dict[Mode, str]] = {
    "ask": "asks before edits and commands",
    "auto-edit": "edits files, asks before commands",
    "yolo": "runs everything without asking",
    "plan": "plans, only reads",
}
