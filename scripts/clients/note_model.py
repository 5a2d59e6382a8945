"""The model behind the emulators: reads a note with whichever tool a client offers for it, and repeats what it read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think

WORD = "violet-otter-42"
"""What the note says: an answer that holds it went through the tool."""
PROMPT = "NOTE-TURN: read the note in note.txt."
SLOW_PROMPT = "SLOW-TURN: read the note in note.txt, twice at once, and take your time."
SLOW_SECONDS = 60
INTERRUPTED = "this call was interrupted"
SLOW_COMMAND = "tail -f /dev/null"

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
SLOW_TOOLS: dict[str, Arguments] = {
    "Bash": lambda note: {"command": _slowly(note), "description": "Read the note slowly"},
    "exec_command": lambda note: {"cmd": _slowly(note)},
    "shell_command": lambda note: {"command": _slowly(note)},
    "shell": lambda note: {"command": ["sh", "-c", _slowly(note)]},
    "run_shell_command": lambda note: {
        "command": _slowly(note),
        "description": "Read slowly",
        "is_background": False,
    },
    "bash": lambda note: {"command": _slowly(note), "description": "Read the note slowly"},
    "read_note": lambda note: {"path": str(note), "seconds": SLOW_SECONDS},
}
"""The same, so slowly that whoever waits for it can be interrupted."""


def _slowly(note: Path) -> str:
    # Some clients refuse a plain sleep.
    return f"timeout {SLOW_SECONDS} {SLOW_COMMAND}; cat {note}"


class NoteModel:
    """Thinks where it may, so that providers which sign thoughts issue signatures."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self.knows = False
        """Whether it knows the note without a tool, for clients that have none."""
        self.thoughts: Counter[str] = Counter()
        """Provider → replies in which it thought, in the turns about the note."""
        self.slow_calls = 0
        """Calls that take long."""

    def reply(self, prompt: Prompt) -> Reply:
        slow = "SLOW-TURN" in prompt.text
        about_note = slow or "NOTE-TURN" in prompt.text
        thoughts: list[Piece] = [Think("The note has to be read.")] if prompt.thinking else []
        if about_note and thoughts:
            self.thoughts[prompt.provider] += 1
        # A call that was interrupted in an earlier turn may have its result in front of the new prompt.
        results = [result for result in prompt.results if INTERRUPTED not in result]
        if results or not about_note:
            return Reply(pieces=(*thoughts, Say(f"I read: {' '.join(results)[:400] or 'no note'}")))
        if self.knows:
            return Reply(pieces=(*thoughts, Say(f"I read: {WORD}")))
        offered = {tool.name for tool in prompt.tools}
        calls = [*self._first(TOOLS, offered), *(self._first(SLOW_TOOLS, offered) if slow else ())]
        if calls:
            self.slow_calls += slow
            return Reply(pieces=(*thoughts, Say("I will look."), *calls[None if prompt.parallel else -1 :]))
        return Reply(
            pieces=(*thoughts, Say(f"No tool of these can read: {', '.join(sorted(offered))[:400]}"))
        )

    def _first(self, tools: dict[str, Arguments], offered: set[str]) -> list[Call]:
        """A call of the first tool that is offered; empty if none is."""
        found = next((name for name in tools if name in offered), "")
        return [Call(found, tools[found](self.note))] if found else []

    def reset(self) -> None:
        self.thoughts.clear()
        self.slow_calls = 0
