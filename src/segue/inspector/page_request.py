"""What a page is made of: who looks, at what, with which question."""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING, final

from msgspec import Struct, field

from segue.errors import InvalidRequestError
from segue.gateway.app import Gateway
from segue.gateway.memory.store import ConversationInfo
from segue.inspector.access.audit import AuditLog
from segue.inspector.access.logins import Viewer
from segue.inspector.record.recorder import Recorder
from segue.providers.registry import KnownProviders
from segue.sessions.approvals import WaitingCalls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.message import Conversation
    from segue.inspector.record.records import ConversationRecord, RequestContent, RequestRecord


@final
class View(Struct, kw_only=True):
    """One look at the gateway."""

    viewer: Viewer
    recorder: Recorder
    gateway: Gateway
    providers: KnownProviders
    audit: AuditLog
    query: Mapping[str, str] = {}
    revealed: frozenset[str] = frozenset()
    """Conversations of others whose content an operator asked to see, each noted in the audit log."""
    stored: dict[str, ConversationInfo] = field(default_factory=dict)
    """Of the gateway's memory: also those that other processes served."""
    as_data: bool = False
    """Whether the JSON twin of a page is wanted."""
    approvals: WaitingCalls | None = None
    """Of the sessions of this machine, where the settings say that operators answer for their calls."""
    now: float = field(default_factory=time)

    def may_see(self, caller: str) -> bool:
        """Whether figures of this caller's requests may be shown."""
        return self.viewer.is_operator or caller == self.viewer.name

    def may_read(self, conversation: str, caller: str) -> bool:
        """The same for what was said."""
        return caller == self.viewer.name or (self.viewer.is_operator and conversation in self.revealed)

    def conversations(self) -> Iterator[ConversationRecord]:
        """Those used last come first."""
        return (
            known for known in reversed(self.recorder.conversations.values()) if self.may_see(known.caller)
        )

    def conversation(self, name: str) -> ConversationRecord:
        known = self.recorder.conversations.get(name)
        if known is None or not self.may_see(known.caller):
            raise not_found("conversation")
        return known

    def requests(self) -> Iterator[RequestRecord]:
        return (one for one in reversed(self.recorder.requests.values()) if self.may_see(one.caller))

    def request(self, name: str) -> RequestRecord:
        known = self.recorder.requests.get(name)
        if known is None or not self.may_see(known.caller):
            raise not_found("request")
        return known

    def content(self, request: RequestRecord) -> RequestContent | None:
        """What was said; None if it was not recorded, or is not for this viewer."""
        return request.content if self.may_read(request.conversation, request.caller) else None

    def said(self, known: ConversationRecord) -> Conversation | None:
        return known.conversation if self.may_read(known.id, known.caller) else None

    def title(self, known: ConversationRecord) -> str:
        """Its first words, where they may be read; else its id."""
        return (known.title if self.may_read(known.id, known.caller) else "") or known.id


def not_found(what: str) -> InvalidRequestError:
    """The same for what is not there and for what is not the viewer's."""
    return InvalidRequestError(f"There is no such {what}, or it is forgotten.", code="not_found", status=404)
