"""A call of a reply on its way to a client: which of its arguments can be sent yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.events import Sealed
from segue.errors import ProtocolError
from segue.transcript.blocks.value_text import WRAPPED, is_object_text, json_of

if TYPE_CHECKING:
    from segue.conversation.events import FinishReason

ArgumentsForm: TypeAlias = Literal["text", "object", "object_in_pieces"]
"""Any text; or the JSON of an object, sent whole or in the pieces in which it arrives."""


@final
class ReplyCall(Struct, eq=False):
    """One call. `sent` is its id at the client, empty as long as the client does not know of it."""

    canonical: str
    form: ArgumentsForm
    native: str = ""
    name: str = ""
    sent: str = ""
    index: int = -1
    seal: Sealed | None = None
    _pieces: list[str] = []
    _passed: bool = False
    _held: bool = False
    """Whether the arguments wait until they are whole."""

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str) -> str:
        """More of its arguments; what of them can be sent now, mostly the same."""
        pieces = self._pieces
        pieces.append(text)
        if not self.sent:
            return ""
        if not self._passed:
            return self.pass_on()
        if self.form == "text":
            pieces.clear()
        if not self._held:
            return text
        return self._whole() if self.form == "object" and text.rstrip().endswith("}") else ""

    def pass_on(self) -> str:
        """What can be sent of the arguments that came before the client knew of the call."""
        if not self._pieces:
            return ""
        self._passed = True
        if self.form == "object":
            return self._whole()
        text = self.arguments
        self._held = self.form == "object_in_pieces" and not text.lstrip().startswith("{")
        return "" if self._held else text

    def settle(self, finish: FinishReason) -> tuple[str, bool]:
        """The rest of the arguments, and whether they had to be wrapped. Fails if what was sent is no object."""
        if not self._passed:
            return "{}", False
        if self._held:
            return json_of({WRAPPED: self.arguments}), True
        if self.form == "object_in_pieces" and finish != "length" and not is_object_text(self.arguments):
            raise ProtocolError(
                f"The arguments of a call of {self.name} are not a JSON object.", code="arguments_unreadable"
            )
        return "", False

    def _whole(self) -> str:
        text = self.arguments
        self._held = not is_object_text(text)
        return "" if self._held else text
