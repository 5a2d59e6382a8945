"""Plans the requests to one endpoint; what was planned for a session is used again for its next request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct, structs

from segue.cache_budget import SizedCache
from segue.conversation.blocks import Origin
from segue.dialects.plan import PlanState, plan, repairs_of_plan
from segue.dialects.registry import DIALECTS
from segue.dialects.requests.client_bytes import spelled_as
from segue.errors import InvalidRequestError
from segue.transcript.steps import ModelStep

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.dialects.card import ModelCard
    from segue.dialects.plan import Plan
    from segue.providers.adapter import ChatRequest
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript


KEPT_BYTES: Final = 64 << 20
"""Conversations are kept whole, so only the most recent ones."""
_SESSION_BYTES: Final = 4096
_STEP_BYTES: Final = 256
_HELD: Final = 2
"""What is kept of a session takes so much, as much for each step, and its request so many times."""


@final
class KeptPlans(SizedCache[tuple[str, Origin], PlanState]):
    """What was planned last for each session and target."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        super().__init__(most)

    def keep_plan(self, session: str, target: Origin, state: PlanState, body: int) -> None:
        """`body`: the bytes of the request."""
        size = _SESSION_BYTES + _STEP_BYTES * len(state.transcript.steps) + _HELD * body
        self.keep((session, target), state, size)


@final
class RequestWriter(Struct):
    """Writes the requests to one endpoint, in one dialect."""

    dialect: str
    provider: str
    endpoint: str
    plans: KeptPlans
    """Where the request brings none of its own."""

    def write(self, request: ChatRequest, options: Options, card: ModelCard) -> Plan:
        target = self._target(request)
        planned = plan(
            request.conversation,
            request.ledger,
            target=target,
            card=card,
            tools=request.tools,
            options=options,
            policy=request.policy,
            previous=self._plans(request).get((request.session, target)),
        )
        self._keep(request, target, planned.state, len(planned.body))
        body = planned.body
        if request.since_reply:
            body = self._since_reply(planned.transcript, request, options, card)
        if request.came:
            body = spelled_as(body, request.came, DIALECTS[self.dialect].messages_field)
        return planned if body is planned.body else structs.replace(planned, body=body)

    def _since_reply(
        self, transcript: Transcript, request: ChatRequest, options: Options, card: ModelCard
    ) -> bytes:
        """The request without what its provider holds: all messages up to and including the last reply. What was planned whole is
        what the provider and we have in common, so that what is new means the same in both."""
        dialect = DIALECTS[self.dialect]
        state, steps = dialect.server.state, transcript.steps
        reply = next((at for at in range(len(steps) - 1, -1, -1) if type(steps[at]) is ModelStep), None)
        if state is None or reply is None:
            raise InvalidRequestError("There is no reply that the provider could hold.", code="nothing_held")
        encoded = dialect.encode_request(transcript, request.tools, options, card, after=reply)
        messages = encoded.fields[dialect.messages_field]
        if encoded.is_linked or type(messages) is not list:
            raise InvalidRequestError(
                "The new messages cannot be sent without the others.", code="nothing_held"
            )
        sent = msgspec.json.decode(msgspec.json.encode(messages))
        new = [message for message in sent if not state.is_reply(message)]
        fields = {
            name: value
            for name, value in encoded.fields.items()
            if name not in state.left_out and not (name in state.usual and value == state.usual[name])
        }
        return msgspec.json.encode({**fields, dialect.messages_field: new})

    def repairs(
        self, request: ChatRequest, options: Options, card: ModelCard, size: int
    ) -> tuple[Repair, ...]:
        """Those of the same request, which is not written for it. `size`: the bytes that it has about."""
        target = self._target(request)
        repairs, state = repairs_of_plan(
            request.conversation,
            request.ledger,
            target=target,
            card=card,
            tools=request.tools,
            options=options,
            policy=request.policy,
            previous=self._plans(request).get((request.session, target)),
        )
        self._keep(request, target, state, size)
        return repairs

    def _target(self, request: ChatRequest) -> Origin:
        return Origin(self.dialect, self.provider, self.endpoint, request.model)

    def _plans(self, request: ChatRequest) -> KeptPlans:
        return request.plans if request.plans is not None else self.plans

    def _keep(self, request: ChatRequest, target: Origin, state: PlanState, body: int) -> None:
        if request.session:
            self._plans(request).keep_plan(request.session, target, state, body)
