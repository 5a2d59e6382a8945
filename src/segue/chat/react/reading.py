"""A ReAct reply while it arrives: text in, thoughts, calls and the final answer out."""

from __future__ import annotations

from segue.chat.react.parsing import Parsed
from segue.conversation.events import Event


class ReActReader:
    """Feed it the events of a provider, then close it. Where the text is cut makes no difference."""

    @property
    def parsed(self) -> Parsed:
        """What was understood; whole once the reply is over."""
        raise NotImplementedError

    def feed(self, event: Event) -> list[Event]:
        raise NotImplementedError

    def close(self) -> list[Event]:
        """What is still to be told. Does nothing after a `Finished` or `Failed` was fed."""
        raise NotImplementedError
