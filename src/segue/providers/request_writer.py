"""Renders and encodes requests; what was rendered for a session is used again for its next request."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct, structs

from segue.dialects.card import fit_rules
from segue.dialects.request_cache import RequestCache
from segue.providers.adapter import RequestSent
from segue.transcript.render import render

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.dialect import Dialect
    from segue.providers.adapter import ChatRequest
    from segue.transcript.policy import Policy
    from segue.transcript.steps import Transcript

KEPT_SESSIONS = 64
"""Conversations are kept whole, so only the most recent ones."""


@final
class WrittenRequest(Struct, frozen=True):
    """A request, ready to be sent. `tool_names`: the conversation's names of tools that were renamed for the target."""

    sent: RequestSent
    tool_names: dict[str, str]


class _Kept:
    """What the next request of one session begins with."""

    __slots__ = ("cache", "transcript")

    def __init__(self, dialect: Dialect) -> None:
        self.cache = RequestCache(dialect)
        self.transcript: Transcript | None = None


@final
class RequestWriter:
    """Writes the requests to one endpoint, in one dialect."""

    def __init__(self, dialect: Dialect, provider: str, endpoint: str) -> None:
        self._dialect = dialect
        self._provider = provider
        self._endpoint = endpoint
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def write(self, request: ChatRequest, options: Options, card: ModelCard, url: str = "") -> WrittenRequest:
        rules = self._dialect.rules.at(provider=self._provider, endpoint=self._endpoint, model=request.model)
        rules = fit_rules(rules, card)
        kept = self._keeping(request.session, request.model)
        policy = _policy(request.policy, request.tools)
        transcript = render(request.conversation, request.ledger, rules, policy, previous=kept.transcript)
        encoded = kept.cache.encode(transcript, request.tools, options, card)
        kept.transcript = transcript
        sent = RequestSent(
            origin=rules.target,
            made_under=transcript.fingerprint,
            repairs=(*transcript.repairs, *encoded.repairs),
            body=encoded.body,
            url=url,
        )
        return WrittenRequest(sent, {wire: name for name, wire in transcript.names.items() if wire != name})

    def _keeping(self, session: str, model: str) -> _Kept:
        if not session:
            return _Kept(self._dialect)
        kept = self._kept.pop((session, model), None) or _Kept(self._dialect)
        self._kept[session, model] = kept
        if len(self._kept) > KEPT_SESSIONS:
            self._kept.popitem(last=False)
        return kept


def _policy(policy: Policy, tools: tuple[ToolSpec, ...]) -> Policy:
    """What the tools add to what the user wants."""
    names = policy.tool_names or tuple(tool.name for tool in tools)
    settings_fingerprint = (
        policy.settings_fingerprint or blake2b(msgspec.json.encode(tools), digest_size=8).hexdigest()
    )
    return structs.replace(policy, tool_names=names, settings_fingerprint=settings_fingerprint)
