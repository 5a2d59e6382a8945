"""Plans the requests to one endpoint; what was planned for a session is used again for its next request."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, field

from segue.conversation.blocks import Origin
from segue.dialects.client_bytes import spelled_as
from segue.dialects.plan import PlanState, plan, repairs_of_plan
from segue.dialects.registry import DIALECTS
from segue.providers.adapter import RequestSent
from segue.transcript.steps import ModelStep, Transcript

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.dialects.card import ModelCard
    from segue.providers.adapter import ChatRequest
    from segue.transcript.repairs import Repair

KEPT_SESSIONS = 256
KEPT_BYTES = 64 << 20
"""Conversations are kept whole, so only the most recent ones: no more of them, and no more bytes of what they take."""
_SESSION_BYTES: Final = 4096
_STEP_BYTES: Final = 256
_HELD: Final = 2
"""What is kept of a session takes so much, as much for each step, and its request so many times."""
_NOTHING: Final[tuple[PlanState | None, int]] = (None, 0)


@final
class WrittenRequest(Struct, frozen=True):
    """A request, ready to be sent. `tool_names`: the conversation's names of tools that were renamed for the target."""

    sent: RequestSent
    tool_names: dict[str, str]
    transcript: Transcript

    def call_ids(self) -> tuple[tuple[str, str], ...]:
        """The canonical id of each call, and the one that is sent."""
        steps = (step for step in self.transcript.steps if isinstance(step, ModelStep))
        return tuple((call.call_id, call.id) for step in steps for call in step.calls)


@final
class RequestWriter(Struct):
    """Writes the requests to one endpoint, in one dialect."""

    dialect: str
    provider: str
    endpoint: str
    _kept: OrderedDict[tuple[str, str], tuple[PlanState | None, int]] = field(default_factory=OrderedDict)
    _kept_bytes: int = 0

    def write(self, request: ChatRequest, options: Options, card: ModelCard, url: str = "") -> WrittenRequest:
        planned = plan(
            request.conversation,
            request.ledger,
            target=Origin(self.dialect, self.provider, self.endpoint, request.model),
            card=card,
            tools=request.tools,
            options=options,
            policy=request.policy,
            previous=self._kept.get((request.session, request.model), _NOTHING)[0],
        )
        self._keep(request, planned.state, len(planned.body))
        body = planned.body
        if request.came:
            body = spelled_as(body, request.came, DIALECTS[self.dialect].messages_field)
        sent = RequestSent(
            origin=planned.origin,
            made_under=planned.made_under,
            repairs=planned.repairs,
            body=body,
            url=url,
        )
        return WrittenRequest(sent, planned.names, planned.transcript)

    def repairs(
        self, request: ChatRequest, options: Options, card: ModelCard, size: int
    ) -> tuple[Repair, ...]:
        """Those of the same request, which is not written for it. `size`: the bytes that it has about."""
        repairs, state = repairs_of_plan(
            request.conversation,
            request.ledger,
            target=Origin(self.dialect, self.provider, self.endpoint, request.model),
            card=card,
            tools=request.tools,
            options=options,
            policy=request.policy,
            previous=self._kept.get((request.session, request.model), _NOTHING)[0],
        )
        self._keep(request, state, size)
        return repairs

    def _keep(self, request: ChatRequest, state: PlanState, body: int) -> None:
        if not request.session:
            return
        size = _SESSION_BYTES + _STEP_BYTES * len(state.transcript.steps) + _HELD * body
        session = request.session, request.model
        if (old := self._kept.pop(session, None)) is not None:
            self._kept_bytes -= old[1]
        self._kept[session] = state, size
        self._kept_bytes += size
        while len(self._kept) > KEPT_SESSIONS or (self._kept_bytes > KEPT_BYTES and len(self._kept) > 1):
            _, (_, dropped) = self._kept.popitem(last=False)
            self._kept_bytes -= dropped
