"""What a reply may hold on the wire of a client, so that the client and its own provider accept it, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.tools import ToolSpec
from segue.transcript.blocks.citations import SourceKind
from segue.transcript.reply_call import ArgumentsForm
from segue.transcript.rules import Rules

SealKind: TypeAlias = Literal["signature", "encrypted", "redacted", "thought"]


class ClientWire(Struct, frozen=True, kw_only=True):
    """The replies of one wire. What its provider takes back in the next request is in `rules`."""

    rules: Rules
    reply_prefix: str = ""
    """How the id of a reply begins."""
    plain_reasoning: bool = False
    """Whether its provider takes thoughts back that bear no seal, whoever made them."""
    capsule: SealKind | None = None
    """The kind of seal in which the caller's own payload can travel on a thought; None if there is none."""
    media: frozenset[str] = frozenset()
    """Media types that a reply may hold, exact or as ``image/*``."""
    cites: frozenset[SourceKind] = frozenset()
    """Which sources of a text it can name; others are listed as words."""
    calls_last: bool = False
    """Blocks have an order, and its provider takes nothing back that stands behind a call."""
    call_ids: bool = True
    """Whether a call cannot be without an id, so that a reply with calls is known by theirs when it returns."""
    arguments: ArgumentsForm = "text"
    empty: bool = False
    """Whether its provider takes a message without any content back."""
    cancelled: bool = False
    """Whether there is a word for a reply that was cancelled."""

    @property
    def dialect(self) -> str:
        return self.rules.target.dialect


@final
class ClientRequest(Struct, frozen=True, kw_only=True):
    """The request that is answered, as far as its reply depends on it."""

    wire: ClientWire
    nonce: str
    """Differs for every request: all new ids come from it."""
    model: str = ""
    """The model's name as the client wrote it."""
    used_ids: Collection[str] = ()
    """The call ids in the client's history."""
    names: Mapping[str, str] = {}
    """The provider's names of tools, and what the client calls them."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the client offered."""
    structured: bool = False
    """Whether the client reads the text as JSON, so that no words of ours may be added to it."""
    minted: int = 0
    """How many canonical ids are taken."""
