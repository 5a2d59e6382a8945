"""The model behind the emulators: reads a note with whichever tool a client offers for it, and repeats what it read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segue.emulators.model_reply import Call, Piece, Prompt, Reply, Say, Think

WORD = "violet-otter-42"
"""What the note says: an answer that holds it went through the tool."""
PROMPT = "NOTE-TURN: read the note in note.txt."

Arguments = Callable[[Path], dict[str, Any]]
TOOLS: dict[str, Arguments] = {
    "Bash": lambda note: {"command": f"cat {note}", "description": "Read the note"},
    "exec_command": lambda note: {"cmd": f"cat {note}"},
    "shell_command": lambda note: {"command": f"cat {note}"},
    "shell": lambda note: {"command": ["cat", str(note)]},
    "read_file": lambda note: {"file_path": str(note)},
    "bash": lambda note: {"command": f"cat {note}", "description": "Read the note"},
    "read": lambda note: {"path": str(note)},
    "read_note": lambda note: {"path": str(note)},
}
"""Tools of the clients that can read a file, the first that is offered is called."""


class NoteModel:
    """Thinks where it may, so that providers which sign thoughts issue signatures."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self.knows = False
        """Whether it knows the note without a tool, for clients that have none."""
        self.thoughts: Counter[str] = Counter()
        """Provider → replies in which it thought, in the turns about the note."""

    def reply(self, prompt: Prompt) -> Reply:
        about_note = "NOTE-TURN" in prompt.text
        thoughts: list[Piece] = [Think("The note has to be read.")] if prompt.thinking else []
        if about_note and thoughts:
            self.thoughts[prompt.provider] += 1
        if prompt.results or not about_note:
            return Reply(pieces=(*thoughts, Say(f"I read: {' '.join(prompt.results)[:400] or 'no note'}")))
        if self.knows:
            return Reply(pieces=(*thoughts, Say(f"I read: {WORD}")))
        offered = {tool.name for tool in prompt.tools}
        for name, arguments in TOOLS.items():
            if name in offered:
                call = Call(name, arguments(self.note))
                return Reply(pieces=(*thoughts, Say("I will look."), call))
        return Reply(
            pieces=(*thoughts, Say(f"No tool of these can read: {', '.join(sorted(offered))[:400]}"))
        )

    def reset(self) -> None:
        self.thoughts.clear()
