"""A reply in plain text while it arrives: text in; thoughts, calls and the final answer out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
)

if TYPE_CHECKING:
    from segue.conversation.events import FinishReason
    from segue.transcript.text_tools.form import ParsedReply, ReplyScanner, Section

_CALL_ID = 9
"""Characters of the reply's id that identify its call, as the strictest templates want them."""


class TextToolReader:
    """Feed it the events of a provider, then close it. Where the text is cut makes no difference.

    Thoughts and the answer are passed on as they come. The action is passed on at the end only: a final answer after
    it would call it off.
    """

    def __init__(self, scanner: ReplyScanner) -> None:
        self._scanner = scanner
        self._indices: dict[Section | int, int] = {}
        self._reply_id = ""
        self._called = False
        self._over = False
        self._cut_off = False

    @property
    def parsed(self) -> ParsedReply:
        """What was understood; complete once the reply is over."""
        return self._scanner.parsed(cut_off=self._cut_off)

    @property
    def answers(self) -> bool:
        """Whether the final answer has begun."""
        return "answer" in self._indices

    def feed(self, event: Event) -> list[Event]:
        if self._over:
            return [] if isinstance(event, (Finished, Failed)) else [event]
        match event:
            case TextDelta(_, text):
                return self._section_events(self._scanner.feed(text))
            case Finished(reason, raw):
                return self._finish(reason, raw)
            case Failed():
                self._over = self._cut_off = True
                return [*self._section_events(self._scanner.close()), event]
            case Sealed(block="text"):
                return []  # it was made for the text as the model wrote it, which is divided here
            case ReasoningDelta() | CallStarted() | ArgumentsDelta() | Sealed() | MediaArrived():
                self._called = self._called or type(event) is CallStarted
                return [structs.replace(event, index=self._index(event.index))]
            case Cited(_, citation):  # the text is divided here
                section: Section = "answer" if self.answers else "text"
                return [Cited(self._index(section), structs.replace(citation, start=None, end=None))]
            case _:
                self._reply_id = event.id if type(event) is ReplyStarted else self._reply_id
                return [event]

    def close(self) -> list[Event]:
        """The events still missing; none after a `Finished` or `Failed` was fed."""
        return [] if self._over else self._finish("stop", "")

    def _finish(self, reason: FinishReason, raw: str) -> list[Event]:
        self._over = True
        self._cut_off = reason not in ("stop", "tool_calls")
        events = self._section_events(self._scanner.close())
        parsed = self.parsed
        if parsed.action is not None and parsed.final_answer is None:
            if parsed.calls and reason in ("stop", "tool_calls", "length"):
                index = self._index("action")
                events += [
                    CallStarted(index, self._reply_id[-_CALL_ID:], parsed.action),
                    ArgumentsDelta(index, parsed.raw_input or "{}"),
                ]
                return [*events, Finished("tool_calls", raw)]
            # The model must see what it wrote to correct it.
            events.append(TextDelta(self._index("input"), self._scanner.action_text()))
        if reason == "tool_calls" and not self._called:
            reason = "stop"
        return [*events, Finished(reason, raw)]

    def _section_events(self, found: list[tuple[Section, str]]) -> list[Event]:
        events: list[Event] = []
        for section, text in found:
            if section == "thought":
                events.append(ReasoningDelta(self._index(section), text))
            elif section in ("text", "answer"):
                events.append(TextDelta(self._index(section), text))
        return events

    def _index(self, key: Section | int) -> int:
        """The index of a section or of a block of the provider, in the order in which they began."""
        return self._indices.setdefault(key, len(self._indices))
