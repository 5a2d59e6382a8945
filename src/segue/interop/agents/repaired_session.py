"""A session file repaired in its own format: the lines that its program cannot resume are changed, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.interop.agents.claude_code import repair_claude_code
from segue.interop.agents.codex import repair_codex
from segue.interop.agents.gemini_cli import repair_gemini_cli
from segue.interop.agents.pi import repair_pi
from segue.interop.agents.qwen_code import repair_qwen_code
from segue.interop.agents.session_draft import SessionDraft, SessionFault

if TYPE_CHECKING:
    from collections.abc import Callable

_REPAIRS: Final[dict[str, Callable[[SessionDraft], list[SessionFault]]]] = {
    "Claude Code session": repair_claude_code,
    "Codex rollout": repair_codex,
    "Gemini CLI session": repair_gemini_cli,
    "pi session": repair_pi,
    "Qwen Code session": repair_qwen_code,
}
"""By the form that the reader finds."""


_HEALED: Final[dict[str, dict[str, str]]] = {
    "Codex rollout": {"call_closed": "Codex closes it itself"},
    "Gemini CLI session": {
        "call_seal_filled": "Gemini CLI keeps no thought signatures, and sends the documented stand-in itself"
    },
    "pi session": {
        "call_closed": "pi closes it itself",
        "id_replaced": "pi sends ids as they stand, and its provider takes this one",
    },
    "Qwen Code session": {"call_closed": "Qwen Code closes it itself"},
}
"""What a program repairs by itself, wherever it stands: by the kind of repair that rendering would make."""


_ROUNDS: Final = 5
"""A repair can uncover a fault: a result that became text leaves its call open."""


@final
class RepairedSession(Struct, frozen=True):
    """The file without its faults, and the faults: also those that the program heals by itself."""

    data: bytes
    faults: tuple[SessionFault, ...]
    healed: Mapping[str, str]
    """What the program does with kinds of faults that it heals wherever they stand."""

    @property
    def broken(self) -> bool:
        return any(fault.effect != "healed" for fault in self.faults)


def repair_session(data: bytes, form: str) -> RepairedSession | None:
    """None if there is no repair in the format of such a file."""
    repair = _REPAIRS.get(form)
    if repair is None:
        return None
    faults: list[SessionFault] = []
    lines = list(range(len(data.splitlines()) + 1))
    for again in range(_ROUNDS):
        draft = SessionDraft(data)
        # What the program heals is still there in the next round, and reported once.
        found = [fault for fault in repair(draft) if not (again and fault.effect == "healed")]
        faults += [structs.replace(fault, line=lines[fault.line]) for fault in found]
        written = draft.written()
        lines = [0, *(lines[number] for number, _ in written)]
        data = b"".join([line for _, line in written])
        if all(fault.effect == "healed" for fault in found):
            break
    faults.sort(key=lambda fault: fault.line)
    return RepairedSession(data, tuple(faults), _HEALED.get(form, {}))
