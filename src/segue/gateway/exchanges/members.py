"""Which members a turn may go to, and how it is put to each: forwarded as it is, or planned anew."""

from __future__ import annotations

from collections import Counter
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from msgspec import structs

from segue.config.model_names import without_note
from segue.conversation.options import Options
from segue.conversation.usage import NO_USAGE
from segue.dialects.server_side.stored_wires import stored_wire
from segue.errors import RouteBusyError, SegueError
from segue.gateway.conversations.references import body_of_part, lost_in, may_hold
from segue.gateway.exchanges.attempts import ForwardedAttempt, TranslatedAttempt, forwarded_headers
from segue.gateway.exchanges.model_field import renamed
from segue.gateway.exchanges.provider_state import body_with_state, with_state
from segue.gateway.memory.openings import without_passing_system
from segue.gateway.prompt_caches.forecasts import PromptCaches
from segue.gateway.requests.client_errors import choices_error, strict_error
from segue.providers.adapter import ChatRequest
from segue.providers.hosts.addresses import is_home
from segue.providers.models.cards import card_for_model
from segue.providers.requests.request_writer import KeptPlans
from segue.providers.requests.text_requests import fitted_to_model
from segue.routing.route import provider_of
from segue.routing.router import Need
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from segue.config.schema import GatewaySettings
    from segue.conversation.blocks import Origin
    from segue.conversation.usage import Usage
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.exchanges.attempts import ClientAttempt
    from segue.gateway.memory.memory import Memory
    from segue.gateway.names import ModelNames
    from segue.providers.adapter import ProviderAdapter, RequestSent
    from segue.providers.capabilities import Forward
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route
    from segue.routing.router import Routing
    from segue.transcript.repairs import Kind

_NO_OPTIONS = Options()
_WITHOUT_STATE: Final = 900.0
"""Seconds."""


@final
class Members:
    """Routes of all turns of a gateway."""

    def __init__(
        self, names: ModelNames, providers: KnownProviders, settings: GatewaySettings, memory: Memory
    ) -> None:
        self.names = names
        self._providers = providers
        self._settings = settings
        self._memory = memory
        self.limits = settings.limits
        self.lists_models = settings.provider_models
        self.uses_state = settings.provider_state == "use"
        """Whether providers may hold what clients ask them to hold, and be sent only what is new."""
        self.keep_alive = settings.limits.keep_alive
        """Seconds of silence after which a stream gets a frame that keeps its connection open."""
        self.caches = PromptCaches()
        """The last request of each conversation at each route: what its provider's cache should give."""
        self.plans = KeptPlans()
        """What was planned for conversations, whichever provider they went to."""
        self._busy: Counter[str] = Counter()
        self._without_state: dict[str, float] = {}
        """Routes that refuse to hold conversations, and until when they are not asked to."""

    def routings(self, turn: ClientTurn, switched: str = "") -> list[Callable[[], Routing]]:
        """Where the turn may go, in this order. `switched`: the model that an operator chose for the conversation.

        A turn that has begun stays with its provider; only when that has failed, the others are asked. What it refers to may be
        held by one of them.
        """
        asked = switched or turn.asked
        router = self.names.router(asked)
        need = Need(images=turn.has_images, tools=bool(turn.tools))
        bound = turn.bound
        sticky = turn.last_route if self.names.is_sticky(asked) else ""
        wanted = bound or sticky
        if turn.prepared.references and not (wanted and may_hold(turn, wanted.partition("/")[0])):
            holders = [route.name for route in router.routes if may_hold(turn, route.provider)]
            bound, sticky = "", next(iter(holders), "")
        if not bound:
            return [partial(router.open, need, prefer=sticky)]
        if any(route.name == bound for route in router.routes):
            return [partial(router.open, need, prefer=bound)]
        return [partial(self.names.single(bound).open, need), partial(router.open, need)]

    def attempt(self, turn: ClientTurn, route: Route, spent: Usage = NO_USAGE) -> ClientAttempt:
        """Raises what keeps the request from being sent there. `spent`: on replies of this route that could not be read."""
        provider = provider_of(route, self._providers)
        target = _target(provider, route)
        request = self._request(turn, route, provider, target)
        held = self._held(turn, route, target)
        if turn.prepared.references:
            forwarded = self._forwarded_to_holder(turn, route, provider, target, request, held)
        else:
            forwarded = self._forwarded(turn, route, provider, target, request, held)
        if forwarded is not None:
            return forwarded
        if turn.prepared.unread is not None:
            raise turn.prepared.unread
        if (wanted := turn.dialect.server.choices_in(turn.fields)) > 1:
            raise choices_error(turn.dialect, wanted)
        if held is not None:
            request = with_state(turn, request, held)
        if turn.strict:
            sent = _preview(provider, request)
            repairs = (*turn.repairs, *(sent.repairs if sent is not None else ()))
            if losses := turn.refused([repair for repair in repairs if _is_lost(repair, turn)]):
                raise strict_error(losses, route.name)
        attempt = TranslatedAttempt(
            turn,
            provider,
            self._asked_whole(request) if self._is_asked_whole(turn, route) else request,
            route=route.name,
            # Behind a reply that the client began itself its provider takes no thoughts back: they would not come first.
            home=turn.is_own(provider.name) and not turn.prefilled,
            reasoning=self._settings.reasoning,
            capsule=lambda thought: self._memory.seal_capsule(turn.caller, thought.text.encode()),
            spent=spent,
        )
        attempt.held, attempt.shortcut = held is not None, request.since_reply
        attempt.begins_state = attempt.held and not attempt.shortcut
        return attempt

    def _held(self, turn: ClientTurn, route: Route, target: Origin | None) -> Origin | None:
        """The provider that is asked to hold a conversation because its client asks for that, on the wire that it asks on; None if
        there is none."""
        if not self.uses_state or not turn.prepared.kept or turn.prepared.stateless or target is None:
            return None
        if self._without_state.get(route.name, 0.0) > monotonic():
            return None
        server = turn.dialect.server
        if server.stores_replies and not stored_wire(turn.dialect.name).keeps(turn.fields):
            return None  # a conversation of ours may have it; nobody else was asked to keep it
        is_its_own = target.dialect == turn.dialect.name and is_home(route.provider, target.dialect)
        return target if is_its_own and turn.dialect.server.state is not None else None

    def _is_asked_whole(self, turn: ClientTurn, route: Route) -> bool:
        """Whether a provider is asked for a reply as a whole. In a stream it is noticed earlier that a reply has stalled, which is worth
        what it costs if somebody else could take over."""
        if turn.stream or turn.prepared.reply_id or self._settings.whole_replies == "streamed":
            return False
        return [one.name for one in self.names.router(turn.asked).routes] == [route.name]

    @staticmethod
    def _asked_whole(request: ChatRequest) -> ChatRequest:
        return structs.replace(request, options=structs.replace(request.options, stream=False))

    def refuses_state(self, turn: ClientTurn, route: Route, error: SegueError) -> bool:
        """Whether a provider refuses to hold a conversation; then it is not asked to for a while."""
        state = turn.dialect.server.state
        said = f"{error.code} {error.message} {getattr(error, 'members', '')}"
        if state is None or not any(name in said for name in state.begin):
            return False
        self._without_state[route.name] = monotonic() + _WITHOUT_STATE
        return True

    def require_whole(self, turn: ClientTurn, provider: ProviderAdapter, request: ChatRequest) -> None:
        """Raises the words of the client's wire if a plan of the turn would be without something that it refers to."""
        if not turn.prepared.references:
            return
        if (refusal := lost_in(turn, self._planned(turn, provider, request))) is not None:
            raise refusal

    def _planned(
        self, turn: ClientTurn, provider: ProviderAdapter, request: ChatRequest
    ) -> RequestSent | None:
        """The plan of a turn that refers to something; None if it cannot be planned there."""
        if turn.prepared.is_part or not may_hold(turn, provider.name):
            return None
        try:
            return _preview(provider, request)
        except SegueError:
            return None

    def request(self, turn: ClientTurn, route: Route) -> ChatRequest:
        """The turn for a route; its provider plans it. What its model lacks it gets in words."""
        provider = provider_of(route, self._providers)
        return self._request(turn, route, provider, _target(provider, route))

    def _request(
        self, turn: ClientTurn, route: Route, provider: ProviderAdapter, target: Origin | None
    ) -> ChatRequest:
        same = target is not None and target.dialect == turn.dialect.name
        request = ChatRequest(
            model=route.model,
            conversation=turn.conversation_at(target)
            if same and target is not None
            else without_passing_system(turn.dialect, turn.conversation),
            tools=turn.tools,
            options=route.options.over(turn.options),
            session=turn.conversation_id,
            plans=self.plans,
            asks_for_cache=not same,  # on its own wire the client does that itself
            headers=forwarded_headers(turn) if same else {},
            came=turn.request.body if same else b"",
        )
        return fitted_to_model(request, provider)

    def _forwarded(
        self,
        turn: ClientTurn,
        route: Route,
        provider: ProviderAdapter,
        target: Origin | None,
        request: ChatRequest,
        held: Origin | None,
    ) -> ForwardedAttempt | None:
        """The client's own bytes, if this provider takes them as they are; None if they have to be planned."""
        forward = provider.capabilities.forward
        if forward is None or target is None or target.dialect != turn.dialect.name:
            return None
        if turn.repairs or route.options != _NO_OPTIONS or not self._has_all(turn, target):
            return None
        if request.policy.text_form is not None or (turn.stream and provider.lacks(route.model, "stream")):
            return None
        if turn.prepared.held is not None or not _all_made_by(turn, target):
            return None  # items of a conversation object can be deleted: what is left of a forwarded reply may not stand alone
        if not (turn.prepared.unread is not None or _needs_no_plan(turn, route, forward, target, request)):
            return None
        server, body = turn.dialect.server, turn.request.body
        says_so_itself = server.stores_replies and turn.prepared.whole is None
        if server.continuations is None or says_so_itself or held is None:
            if server.model_field and turn.asked != target.model:
                body = renamed(body, server.model_field, target.model, turn.read)
                if server.agent_field in turn.fields:
                    body = renamed(body, server.agent_field, target.model)
            attempt = ForwardedAttempt(turn, provider, target, request, body, route=route.name)
            attempt.shortcut = turn.changed or bool(turn.prepared.at)  # what was put in here is held there
            stored = server.stores_replies and stored_wire(turn.dialect.name).keeps(turn.fields)
            attempt.held = stored or server.continuations is None
            return attempt
        request = with_state(turn, request, held)
        body = body_with_state(turn, request, target.model)
        attempt = ForwardedAttempt(turn, provider, target, request, body, route=route.name)
        attempt.shortcut, attempt.begins_state = request.since_reply, not request.since_reply
        return attempt

    def _has_all(self, turn: ClientTurn, target: Origin) -> bool:
        """Whether the client's own bytes say all that the target does not hold itself."""
        native, at = turn.prepared.native, turn.prepared.at
        if at and at != target.provider:
            return False
        if native is None or turn.dialect.server.continuations is not None:  # those bytes are whole
            return not turn.changed
        return self.uses_state and native.is_at(target) and not (turn.changed and native.reply_id)

    def _forwarded_to_holder(
        self,
        turn: ClientTurn,
        route: Route,
        provider: ProviderAdapter,
        target: Origin | None,
        request: ChatRequest,
        held: Origin | None,
    ) -> ForwardedAttempt | None:
        """The client's own bytes to a provider that may hold what they refer to; None if a plan of them refers to it, too. Raises the
        refusal of the client's wire."""
        if not may_hold(turn, route.provider):
            raise turn.prepared.references[0].refusal
        whole = not turn.prepared.is_part
        forwarded = self._forwarded(turn, route, provider, target, request, held) if whole else None
        if (
            forwarded is not None
            or (refusal := lost_in(turn, self._planned(turn, provider, request))) is None
        ):
            return forwarded
        forwarded = self._forwarded_part(turn, route, provider, request)
        if forwarded is None:
            raise refusal
        return forwarded

    def _forwarded_part(
        self, turn: ClientTurn, route: Route, provider: ProviderAdapter, request: ChatRequest
    ) -> ForwardedAttempt | None:
        """What cannot be planned, such as the end of a conversation whose beginning its provider holds: that gets it as it is, and
        says itself what is wrong with it. None if this provider cannot."""
        forward = provider.capabilities.forward
        if forward is None or (turn.stream and provider.lacks(route.model, "stream")):
            return None
        target, body = forward.target(route.model, turn.dialect.name), body_of_part(turn)
        if (
            target.dialect != turn.dialect.name
            or turn.prepared.at not in ("", target.provider)
            or body is None
        ):
            return None
        field = turn.dialect.server.model_field
        if field and turn.asked not in ("", target.model):
            body = renamed(body, field, target.model)
            body = renamed(body, turn.dialect.server.agent_field, target.model)
        unsent = [
            name
            for name in Options.__struct_fields__
            if getattr(route.options, name) != getattr(_NO_OPTIONS, name)
        ]
        repairs = [
            Repair(
                "option_not_sent",
                target.dialect,
                f"options.{name}",
                decision="the request is forwarded as it came",
            )
            for name in unsent
        ]
        whole = structs.replace(request, headers=forwarded_headers(turn))
        return ForwardedAttempt(turn, provider, target, whole, body, route=route.name, repairs=tuple(repairs))

    def uses_wire_of(self, turn: ClientTurn, route: Route) -> bool:
        """Whether a route is of the client's own wire, be it at its own provider or not."""
        target = _target(provider_of(route, self._providers), route)
        return target is not None and target.dialect == turn.dialect.name

    def is_native(self, turn: ClientTurn, route: Route) -> bool:
        """Whether a route is of the client's own wire, at its own provider."""
        return self.uses_wire_of(turn, route) and is_home(route.provider, turn.dialect.name)

    def enter(self, route: str) -> None:
        """Take a place among the requests that a route has at a time. Give it back with `leave`."""
        most = self._settings.limits.per_route
        if most is not None and self._busy[route] >= most:
            raise RouteBusyError(
                f"{route} has {most} requests at a time already.", code="route_busy", retry_after=1.0
            )
        self._busy[route] += 1

    def leave(self, route: str) -> None:
        self._busy[route] -= 1


def _is_lost(repair: Repair, turn: ClientTurn) -> bool:
    """Whether a repair takes something away from a request that its client wants whole: content, or an option that nobody obeys."""
    return repair.lossy or (
        repair.kind == "option_not_sent" and repair.path not in turn.dialect.server.obeyed
    )


def _target(provider: ProviderAdapter, route: Route) -> Origin | None:
    """Who answers on a route, as far as its provider takes requests as they are; None if it takes none."""
    forward = provider.capabilities.forward
    return forward.target(route.model) if forward is not None else None


def _preview(provider: ProviderAdapter, request: ChatRequest) -> RequestSent | None:
    preview = provider.capabilities.preview
    return preview(request) if preview is not None else None


def _needs_no_plan(
    turn: ClientTurn, route: Route, forward: Forward, target: Origin, request: ChatRequest
) -> bool:
    """Whether a plan of the turn would change nothing that matters."""
    size = len(turn.request.body)
    harmless = _harmless(target) if without_note(turn.asked) in (target.model, route.name) else frozenset()
    lasting = _lasting(turn, request)
    return (lasting is not None and _passes(forward, lasting, size, harmless)) or _passes(
        forward, request, size, harmless
    )


def _passes(forward: Forward, request: ChatRequest, size: int, harmless: Collection[Kind]) -> bool:
    """Whether a plan of the request would change nothing that matters."""
    try:
        return all(repair.kind in harmless for repair in forward.repairs(request, size))
    except SegueError:
        return False


def _lasting(turn: ClientTurn, request: ChatRequest) -> ChatRequest | None:
    """The request without what its client writes anew each time, so that the plan of its last one can be continued: enough
    to see whether something would be repaired. None if there is no such thing in it."""
    conversation = without_passing_system(turn.dialect, request.conversation)
    if conversation is request.conversation:
        return None
    return structs.replace(
        request,
        conversation=conversation,
        options=structs.replace(request.options, own=None),
        session=f"{request.session} forwarded",
    )


def _harmless(target: Origin) -> frozenset[Kind]:
    """What need not be changed for a client that names the provider's own model."""
    # Where a system note may stand is known of some models, and then its client cannot know better (ANT-16).
    known = card_for_model(target.model, target.dialect).inline_instructions is not None
    return _HARMLESS - {"instruction_folded"} if known else _HARMLESS


def _all_made_by(turn: ClientTurn, target: Origin) -> bool:
    """Whether every reply of ours in this history came from that provider, under the ids that it gave."""
    wanted = target.dialect, target.provider, True
    return all(maker == wanted for maker in turn.originals.makers)


_HARMLESS: Final[frozenset[Kind]] = frozenset(
    {"schema_reduced", "choice_weakened", "option_not_sent", "instruction_folded"}
)
"""What we would change by what we know of the model; a client that names the provider's own model may know better."""
