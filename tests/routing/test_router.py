"""Who answers a turn, who is asked when that fails, and what is told when nobody can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.usage import Usage
from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    QuotaError,
    RateLimitError,
    RouteBusyError,
    RouteError,
    RouteTooSmallError,
    SegueError,
    TransportError,
    UsageError,
)
from segue.routing.balancer import Balancer
from segue.routing.breaker import BreakerSettings
from segue.routing.profiles import PolicyName, Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, Route, parse_route
from segue.routing.router import GiveUp, GoTo, Need, Retry, Router, Routing, SingleRouter

A, B, C = "a/one", "b/two", "c/three"
BUSY = OverloadError("It is overloaded.", status=503)
USAGE = Usage(input_tokens=10, output_tokens=5)


class World:
    """A clock that is moved by hand, chance that is known, and facts that a test can change."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.random = Random(7)
        self.facts: dict[str, MemberFacts | SegueError] = {}

    def now(self) -> float:
        return self.time

    def fact(self, route: Route) -> MemberFacts:
        known = self.facts.get(route.name, MemberFacts())
        if isinstance(known, SegueError):
            raise known
        return known

    def router(
        self,
        policy: PolicyName = "failover",
        members: Sequence[str] = (A, B, C),
        *,
        weights: dict[str, float] | None = None,
        context: int | None = None,
        breaker: BreakerSettings | None = None,
        profiles: Sequence[str] = (),
    ) -> Router:
        profile = Profile(
            name="team",
            policy=policy,
            members=tuple(members),
            weights=weights or {},
            context=context,
            breaker=breaker or BreakerSettings(),
        )
        return build_router(profile, self.fact, profiles=profiles, now=self.now, random=self.random.random)


def fail(routing: Routing, error: SegueError = BUSY) -> Retry | GoTo | GiveUp:
    return routing.failed(error, shown=False, ran=False)


def leave(routing: Routing, error: SegueError = BUSY) -> GoTo | GiveUp:
    """Fail until the routing goes elsewhere or gives up."""
    while isinstance(step := fail(routing, error), Retry):
        pass
    return step


def turn(router: Router, need: Need | None = None, seconds: float | None = None) -> str:
    """One turn that succeeds at once: who answered it."""
    routing = router.open(need or Need())
    routing.answered(USAGE, seconds)
    return routing.route.name


# Round robin


def test_round_robin_takes_turns_in_strict_order() -> None:
    router = World().router("round_robin")
    assert [turn(router) for _ in range(7)] == [A, B, C, A, B, C, A]


def test_all_exchanges_of_a_turn_stay_where_it_began() -> None:
    routing = World().router("round_robin").open(Need())
    for _ in range(5):
        routing.answered(USAGE)
        assert routing.route.name == A


def test_round_robin_goes_on_after_a_member_that_it_had_to_skip() -> None:
    world = World()
    world.facts[B] = CredentialsError("It has no key.")
    router = world.router("round_robin")
    assert [turn(router) for _ in range(4)] == [A, C, A, C]
    assert [(held.name, held.reason) for held in router.open(Need()).skipped] == [(B, "It has no key.")]


def test_sessions_in_many_threads_share_the_turns_evenly() -> None:
    router = World().router("round_robin")
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: turn(router), range(300)))
    assert Counter(asked) == {A: 100, B: 100, C: 100}
    assert sum(held.requests for held in router.statistics()) == 300


# Failover


def test_failover_stays_with_the_member_that_answered() -> None:
    router = World().router()
    routing = router.open(Need())
    assert isinstance(fail(routing), Retry)
    assert fail(routing) == GoTo(parse_route(B))
    assert routing.route.name == B
    routing.answered(USAGE)
    assert turn(router) == B


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("Slow down.", status=429),
        OverloadError("Busy.", status=500),
        TransportError("Nobody answers."),
    ],
)
def test_a_passing_failure_is_tried_again_at_the_same_member_first(error: SegueError) -> None:
    routing = World().router().open(Need())
    step = fail(routing, error)
    assert isinstance(step, Retry)
    assert 0 < step.after <= 0.5
    assert routing.route.name == A
    assert fail(routing, error) == GoTo(parse_route(B))


@pytest.mark.parametrize(
    "error",
    [
        CredentialsError("Wrong key.", status=401),
        QuotaError("No money.", status=402),
        CredentialsError("Not allowed.", status=403),
        InvalidRequestError("No such model.", status=404),
    ],
)
def test_what_waiting_cannot_cure_goes_to_the_next_member_at_once(error: SegueError) -> None:
    assert fail(World().router().open(Need()), error) == GoTo(parse_route(B))


def test_retry_after_is_waited_for_up_to_a_cap() -> None:
    router = World().router()
    assert fail(router.open(Need()), RateLimitError("", retry_after=9.0)) == Retry(9.0)
    assert fail(router.open(Need()), RateLimitError("", retry_after=90.0)) == GoTo(parse_route(B))


def test_a_member_that_asked_for_a_pause_gets_it() -> None:
    world = World()
    router = world.router()
    leave(router.open(Need()), RateLimitError("Slow down.", retry_after=90.0))
    world.time += 80
    routing = router.open(Need())
    assert routing.route.name == B
    assert "Slow down" in routing.skipped[0].reason
    routing.aborted()
    world.time += 11
    assert router.open(Need()).route.name == A


def test_an_answer_ends_the_rest_of_a_member() -> None:
    """Of two turns that run there at a time one is refused and the other is answered: so it answers again."""
    world = World()
    router = world.router("round_robin", (A, B))
    one = router.open(Need())
    turn(router)
    two = router.open(Need())
    assert one.route.name == two.route.name == A
    leave(two, RateLimitError("slow down", status=429, retry_after=100))
    assert [member.name for member in router.open(Need()).skipped] == [A]
    one.answered(USAGE)
    assert router.open(Need()).skipped == ()


def test_the_error_of_all_members_holds_each_reason_and_the_earliest_time_that_may_help() -> None:
    world = World()
    late = RateLimitError("later", status=429, retry_after=90)
    soon = RateLimitError("soon", status=429, retry_after=40)
    locked = CredentialsError("bad key", status=401)
    routing = world.router("failover").open(Need())
    for error in (late, soon):
        assert isinstance(leave(routing, error), GoTo)
    step = leave(routing, locked)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, RouteBusyError)
    assert (step.error.remedy, step.error.retry_after) == ("wait", 40)
    assert step.error.failures == ((A, late), (B, soon), (C, locked))
    for words in (A, "later", B, "soon", C, "bad key"):
        assert words in step.error.message
    assert [failure["member"] for failure in step.error.as_dict()["failures"]] == [A, B, C]
    # Where no time helps, none is given.
    routing = world.router("failover", (B, C)).open(Need())
    leave(routing, locked)
    step = leave(routing, locked)
    assert isinstance(step, GiveUp)
    assert type(step.error) is RouteError
    assert (step.error.remedy, step.error.retry_after) == ("go_elsewhere", None)


def test_what_is_too_long_for_every_member_is_the_error_of_the_last() -> None:
    routing = World().router("failover", (A, B)).open(Need())
    leave(routing, ContextLengthError("too long", status=400))
    last = ContextLengthError("too long here too", status=400)
    step = leave(routing, last)
    assert isinstance(step, GiveUp)
    assert step.error is last


def test_a_member_that_was_locked_out_is_asked_last_but_rather_than_nobody() -> None:
    world = World()
    router = world.router(members=(A, B))
    leave(router.open(Need()), CredentialsError("Wrong key.", status=401))
    assert router.open(Need()).route.name == B
    leave(router.open(Need()), QuotaError("No money.", status=402))
    assert leave(router.open(Need()), CredentialsError("Wrong key.", status=401)) == GoTo(parse_route(B))
    routing = router.open(Need())
    routing.answered(USAGE)
    assert turn(router) == routing.route.name


@pytest.mark.parametrize("error", [BUSY, CredentialsError("Wrong key.", status=401)])
def test_nothing_is_sent_again_after_output_was_shown(error: SegueError) -> None:
    assert World().router().open(Need()).failed(error, shown=True, ran=False) == GiveUp(error)


def test_a_turn_whose_calls_have_run_waits_for_its_member_but_never_leaves_it() -> None:
    routing = World().router().open(Need())
    assert isinstance(routing.failed(BUSY, shown=False, ran=True), Retry)
    assert routing.failed(BUSY, shown=False, ran=True) == GiveUp(BUSY)


def test_a_turn_that_was_answered_once_never_leaves_its_member() -> None:
    routing = World().router().open(Need())
    routing.answered(USAGE)
    error = CredentialsError("Wrong key.", status=401)
    assert routing.failed(error, shown=False, ran=False) == GiveUp(error)


def test_our_own_mistakes_are_not_carried_from_member_to_member() -> None:
    error = UsageError("There is no such option.")
    assert fail(World().router().open(Need()), error) == GiveUp(error)


def test_the_only_failure_is_told_as_it_is() -> None:
    world = World()
    world.facts[B] = MemberFacts(context=100)
    for members, need in (((A,), Need()), ((A, B), Need(tokens=500))):
        routing = world.router(members=members).open(need)
        locked = CredentialsError("Wrong key.", status=401)
        step = fail(routing, locked)
        assert isinstance(step, GiveUp)
        assert (step.error is locked) == (len(members) == 1)


def test_when_all_fail_every_reason_is_told_and_whether_asking_again_helps() -> None:
    members = [f"p{number}/m" for number in range(6)]
    routing = World().router(members=members).open(Need())
    for number in range(5):
        fail(routing, CredentialsError(f"Wrong key {number}.", status=401))
    step = fail(routing, RateLimitError("Slow down.", status=429, retry_after=90.0))
    assert isinstance(step, GiveUp)
    error = step.error
    assert isinstance(error, RouteBusyError)
    assert error.remedy == "wait"
    assert error.retry_after == 90.0
    assert [name for name, _ in error.failures] == members
    assert all(f"Wrong key {number}" in str(error) for number in range(5))
    assert "Slow down" in str(error)
    assert [held["member"] for held in error.as_dict()["failures"]] == members


def test_a_long_wait_is_waited_for_once_where_nobody_else_can_be_asked() -> None:
    routing = World().router(members=(A, B)).open(Need())
    limit = RateLimitError("Slow down.", status=429, retry_after=45.0)
    step = fail(routing, limit)
    assert isinstance(step, GoTo)
    assert fail(routing, limit) == Retry(45.0)
    assert isinstance(fail(routing, limit), GiveUp)


def test_a_member_whose_limit_is_used_up_is_not_asked_until_it_is_whole_again() -> None:
    world = World()
    router = world.router(members=(A, B))
    world.facts[A] = MemberFacts(limited=90.0)
    assert router.open(Need()).route.name == B
    world.facts[B] = MemberFacts(limited=20.0)
    assert router.open(Need()).route.name == B, "the one that is whole again first"
    world.facts[A] = MemberFacts()
    assert router.open(Need()).route.name == A


def test_when_nothing_would_change_by_itself_waiting_is_not_advised() -> None:
    routing = World().router(members=(A, B)).open(Need())
    fail(routing, CredentialsError("Wrong key.", status=401))
    step = fail(routing, QuotaError("No money.", status=402))
    assert isinstance(step, GiveUp)
    assert step.error.remedy == "go_elsewhere"


def test_after_all_failed_the_first_member_is_asked_first_again() -> None:
    world = World()
    router = world.router(members=(A, B))
    leave(router.open(Need()))
    assert turn(router) == A
    routing = router.open(Need())
    leave(routing)
    routing.answered(USAGE)
    assert turn(router) == B
    routing = router.open(Need())
    leave(routing)
    leave(routing)
    world.time += 1000
    assert turn(router) == A


def test_of_overlapping_turns_the_later_one_decides_who_is_preferred() -> None:
    router = World().router(members=(A, B, C))
    early, late = router.open(Need()), router.open(Need())
    leave(late)
    late.answered(USAGE)
    leave(early, CredentialsError("Wrong key.", status=401))
    leave(early)
    early.answered(USAGE)
    assert (early.route.name, late.route.name) == (C, B)
    assert router.open(Need()).route.name == B


def test_an_abort_is_nobodys_failure() -> None:
    router = World().router(breaker=BreakerSettings(failures=1))
    routing = router.open(Need())
    routing.aborted()
    assert turn(router) == A
    told = router.statistics()[0]
    assert (told.requests, told.aborts, told.failures, told.breaker) == (2, 1, 0, "closed")


def test_a_member_passed_over_for_what_one_turn_has_stays_preferred() -> None:
    world = World()
    world.facts[A] = MemberFacts(images=False)
    router = world.router()
    assert turn(router, Need(images=True)) == B
    assert turn(router) == A


def test_a_member_that_has_all_requests_that_it_may_have_is_passed_over_at_once_and_nobody_failed() -> None:
    router = World().router(breaker=BreakerSettings(failures=1))
    full = RouteBusyError("It has 50 requests at a time already.", retry_after=1.0)
    routing = router.open(Need())
    assert fail(routing, full) == GoTo(parse_route(B))
    routing.answered(USAGE)
    told = router.statistics()[0]
    assert (told.failures, told.breaker) == (0, "closed")
    assert turn(router) == A, "it stays the first"
    routing = router.open(Need())
    assert [leave(routing, full) for _ in range(2)] == [GoTo(parse_route(B)), GoTo(parse_route(C))]
    assert isinstance(fail(routing, full), Retry), "the last one may be free again soon"
    given_up = leave(routing, full)
    assert isinstance(given_up, GiveUp)
    assert isinstance(given_up.error, RouteBusyError)
    assert given_up.error.retry_after == 1.0


# Breaker and rest


def test_a_member_that_keeps_failing_is_left_alone_then_probed_by_one_turn_only() -> None:
    world = World()
    router = world.router("round_robin", (A, B), breaker=BreakerSettings(failures=2, recovery=30.0))
    leave(router.open(Need()))
    assert router.statistics()[0].breaker == "open"
    assert [turn(router) for _ in range(3)] == [B, B, B]
    world.time += 31
    probe, other = router.open(Need()), router.open(Need())
    assert (probe.route.name, other.route.name) == (A, B)
    assert isinstance(fail(probe), GoTo)
    assert router.statistics()[0].breaker == "open"


def test_an_aborted_probe_lets_the_next_turn_probe() -> None:
    world = World()
    router = world.router(members=(A, B), breaker=BreakerSettings(failures=2))
    leave(router.open(Need()))
    world.time += 31
    probe = router.open(Need())
    assert probe.route.name == A
    probe.aborted()
    assert router.open(Need()).route.name == A


def test_when_all_members_rest_the_earliest_return_is_told() -> None:
    world = World()
    router = world.router(members=(A, B), breaker=BreakerSettings(failures=1, recovery=30.0))
    routing = router.open(Need())
    leave(routing)
    leave(routing)
    world.time += 10
    with pytest.raises(RouteBusyError, match="Try again in 20 s") as caught:
        router.open(Need())
    assert caught.value.retry_after == pytest.approx(20.0)
    assert len(caught.value.failures) == 2


def test_every_member_gets_the_same_number_of_tries_and_an_answer_begins_them_anew() -> None:
    """Pauses count against the limit of their own member only, too."""
    world = World()
    retry = RetrySettings(attempts=3, first_pause=1.0, total=3.0)
    profile = Profile(name="team", members=(A, B), retry=retry)
    routing = build_router(profile, world.fact, now=world.now, random=lambda: 1.0).open(Need())
    tries = [Retry(1.0), Retry(2.0)]
    assert [fail(routing), fail(routing), fail(routing)] == [*tries, GoTo(parse_route(B))]
    assert [fail(routing), fail(routing)] == tries
    routing.answered(USAGE)
    assert [fail(routing), fail(routing), fail(routing)] == [*tries, GiveUp(BUSY)]


def test_when_all_fail_for_a_moment_each_is_named_in_one_sentence_and_asking_again_is_possible_now() -> None:
    routing = World().router(members=(A, B)).open(Need())
    leave(routing)
    step = leave(routing, TransportError("The connection broke."))
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, RouteBusyError)
    assert step.error.message == (
        f'No member of "team" answered: {A}: It is overloaded; {B}: The connection broke.'
    )
    assert (step.error.hint, step.error.retry_after) == ("Try again now.", 0.0)


def test_a_probe_that_fails_because_of_its_request_lets_the_next_turn_probe() -> None:
    world = World()
    router = world.router(members=(A, B), breaker=BreakerSettings(failures=2))
    leave(router.open(Need()))
    world.time += 31
    probe = router.open(Need())
    assert probe.route.name == A
    fail(probe, InvalidRequestError("No.", status=400))
    assert router.open(Need()).route.name == A


def test_a_profile_without_a_policy_fails_over() -> None:
    world = World()
    router = build_router(Profile(name="team", members=(A, B)), world.fact, now=world.now)
    assert leave(router.open(Need())) == GoTo(parse_route(B))


# Before a turn


def test_a_member_that_is_too_small_is_skipped_with_the_reason() -> None:
    world = World()
    world.facts[A] = MemberFacts(context=1000)
    routing = world.router().open(Need(tokens=1500))
    assert routing.route.name == B
    assert "1500" in routing.skipped[0].reason
    assert "1000" in routing.skipped[0].reason


def test_when_it_fits_nowhere_the_remedy_is_to_shrink_to_the_largest() -> None:
    world = World()
    world.facts |= {
        A: MemberFacts(context=1000),
        B: MemberFacts(context=2000),
        C: CredentialsError("No key."),
    }
    with pytest.raises(RouteTooSmallError) as caught:
        world.router().open(Need(tokens=5000))
    assert caught.value.remedy == "shrink"
    assert caught.value.limit == 2000
    assert len(caught.value.failures) == 3


def test_a_member_that_sees_no_images_or_knows_no_tools_is_skipped_while_another_can() -> None:
    world = World()
    world.facts |= {A: MemberFacts(images=False), B: MemberFacts(tools=False)}
    routing = world.router().open(Need(images=True, tools=True))
    assert routing.route.name == C
    assert [held.name for held in routing.skipped] == [A, B]


def test_when_no_member_sees_images_one_is_asked_all_the_same() -> None:
    world = World()
    world.facts |= dict.fromkeys((A, B, C), MemberFacts(images=False))
    assert world.router().open(Need(images=True)).route.name == A


def test_the_context_limit_is_the_smallest_of_the_members_that_can_be_used() -> None:
    world = World()
    world.facts |= {
        A: MemberFacts(context=8000),
        B: MemberFacts(context=4000),
        C: CredentialsError("No key."),
    }
    assert world.router().context_limit == 4000
    assert world.router(context=6000).context_limit == 6000
    assert World().router().context_limit is None


def test_each_member_is_asked_within_its_own_window_and_the_limit_set_for_all() -> None:
    world = World()
    world.facts |= {
        A: MemberFacts(context=8000),
        B: MemberFacts(context=4000),
        C: CredentialsError("No key."),
    }
    router, free = world.router(context=6000), world.router()
    assert isinstance(router, Balancer)
    assert isinstance(free, Balancer)
    assert [router.bounded(member).context for member in router.members] == [6000, 4000, 6000]
    assert [free.bounded(member).context for member in free.members] == [None, None, None]


def test_a_member_with_a_limit_of_its_own_keeps_it_beside_the_limit_set_for_all() -> None:
    routes = {A: Route(provider="a", model="one", context=500), B: Route(provider="b", model="two")}
    profile = Profile(name="team", policy="failover", members=(A, B), context=6000)
    router = build_router(profile, World().fact, resolve=routes.__getitem__)
    assert isinstance(router, Balancer)
    assert [router.bounded(member).context for member in router.members] == [500, 6000]


def test_a_limit_set_on_a_route_holds_there() -> None:
    route = Route(provider="a", model="one", context=500)
    router = SingleRouter(route, World().fact)
    assert router.context_limit == 500
    with pytest.raises(RouteTooSmallError):
        router.open(Need(tokens=501))


def test_after_the_provider_finds_it_too_long_only_a_larger_member_is_asked() -> None:
    world = World()
    world.facts |= {A: MemberFacts(context=1000), B: MemberFacts(context=900), C: MemberFacts(context=9000)}
    routing = world.router().open(Need(tokens=800))
    step = fail(routing, ContextLengthError("Too long.", status=400))
    assert step == GoTo(parse_route(C))
    step = fail(routing, ContextLengthError("Too long.", status=400))
    assert isinstance(step, GiveUp)
    assert step.error.remedy == "shrink"


# Members that are missing


def test_a_missing_member_is_tolerated_while_another_is_there() -> None:
    router = World().router(members=("nowhere", A))
    assert turn(router) == A
    routing = router.open(Need())
    assert [held.name for held in routing.skipped] == ["nowhere"]
    assert routing.skipped[0].route is None
    assert '"nowhere" names no provider and model.' in router.statistics()[0].unusable


def test_a_router_without_any_member_that_can_be_found_is_refused() -> None:
    with pytest.raises(UsageError, match="nowhere") as caught:
        World().router(members=("nowhere", "neither"))
    assert caught.value.code == "no_members"


def test_members_that_are_all_misconfigured_are_told_one_by_one() -> None:
    world = World()
    world.facts |= {A: CredentialsError("No key for a."), B: CredentialsError("No key for b.")}
    with pytest.raises(RouteError, match=r"No key for a.*No key for b"):
        world.router(members=(A, B)).open(Need())


def test_a_router_cannot_be_a_member_of_a_router() -> None:
    for members, profiles in (((A, "other"), ("other",)), ((A, "team"), ())):
        with pytest.raises(UsageError) as caught:
            World().router(members=members, profiles=profiles)
        assert caught.value.code == "nested_router"


def test_weights_of_strangers_and_negative_weights_are_refused() -> None:
    for weights in ({"x/y": 1.0}, {A: -1.0}, {A: float("nan")}):
        with pytest.raises(UsageError) as caught:
            World().router("weighted", weights=weights)
        assert (caught.value.code, caught.value.path) == ("bad_weights", "weights")


def test_the_policy_for_one_member_takes_one_member() -> None:
    assert World().router("single", (A,)).open(Need()).route.name == A
    with pytest.raises(UsageError):
        World().router("single", (A, B))


# The other policies


def test_weights_say_how_often_a_member_is_asked() -> None:
    router = World().router("weighted", weights={A: 3.0, B: 1.0, C: 0.0})
    asked = Counter(turn(router) for _ in range(4000))
    assert asked[C] == 0
    assert 2800 < asked[A] < 3200


def test_a_member_without_weight_is_asked_when_all_others_fail() -> None:
    routing = World().router("weighted", (A, B), weights={B: 0.0}).open(Need())
    assert leave(routing) == GoTo(parse_route(B))


def test_least_latency_learns_every_member_then_asks_the_fastest() -> None:
    world = World()
    router = world.router("least_latency")
    seconds = {A: 3.0, B: 0.5, C: 1.0}
    first = []
    for _ in range(3):
        routing = router.open(Need())
        first.append(routing.route.name)
        routing.answered(USAGE, seconds[routing.route.name])
    assert first == [A, B, C]
    assert turn(router, seconds=0.5) == B


def test_least_latency_forgets_what_it_measured_long_ago() -> None:
    world = World()
    router = world.router("least_latency", (A, B))
    assert [turn(router, seconds=5.0), turn(router, seconds=1.0), turn(router, seconds=1.0)] == [A, B, B]
    world.time += 500
    assert turn(router, seconds=1.0) == B
    world.time += 100
    assert [turn(router, seconds=0.5), turn(router, seconds=0.5)] == [A, A]


def test_only_one_turn_at_a_time_is_spent_on_finding_out() -> None:
    router = World().router("least_latency", (A, B))
    turn(router, seconds=1.0)
    assert [router.open(Need()).route.name for _ in range(3)] == [B, A, A]


def test_a_slow_member_that_is_known_is_asked_before_one_that_is_being_found_out() -> None:
    world = World()
    world.time = 1.0
    router = world.router("least_latency", (A, B))
    turn(router, seconds=30.0)
    assert [router.open(Need()).route.name for _ in range(2)] == [B, A]


def test_newer_latencies_weigh_more_than_older_ones() -> None:
    router = World().router("least_latency", (A, B))
    assert [turn(router, seconds=1.0), turn(router, seconds=2.0)] == [A, B]
    assert turn(router, seconds=9.0) == A
    assert turn(router, seconds=2.0) == B
    assert turn(router, seconds=4.0) == B
    assert turn(router, seconds=4.0) == B


# One route


def test_a_single_route_tries_again_and_then_tells_the_error_as_it_is() -> None:
    router = SingleRouter(parse_route(A), World().fact, retry=RetrySettings(attempts=3))
    routing = router.open(Need())
    assert isinstance(fail(routing), Retry)
    assert isinstance(fail(routing), Retry)
    assert fail(routing) == GiveUp(BUSY)
    assert router.open(Need()).route.name == A


def test_a_single_route_never_rests() -> None:
    world = World()
    router = SingleRouter(parse_route(A), world.fact)
    for _ in range(10):
        assert isinstance(leave(router.open(Need()), RateLimitError("", retry_after=90.0)), GiveUp)
        assert isinstance(leave(router.open(Need()), CredentialsError("", status=401)), GiveUp)
    assert turn(router) == A


def test_a_single_route_that_cannot_be_used_says_why_in_its_own_words() -> None:
    world = World()
    world.facts[A] = CredentialsError("No key for a.")
    with pytest.raises(CredentialsError, match="No key for a"):
        SingleRouter(parse_route(A), world.fact).open(Need())


# Statistics


def test_statistics_tell_what_happened_to_each_member() -> None:
    router = World().router(members=(A, B))
    routing = router.open(Need())
    fail(routing, TransportError("Too late.", code="first_byte_timeout"))
    fail(routing)
    routing.answered(USAGE, 0.5, seconds=2.0, cost=0.25)
    routing.answered(Usage(input_tokens=20), 1.5, seconds=4.0, cost=0.5)
    routing.aborted()
    one, two = router.statistics()
    assert (one.requests, one.failures, one.timeouts, one.successes) == (2, 2, 1, 0)
    assert one.last_error == "It is overloaded."
    assert (two.requests, two.successes, two.aborts, two.failures) == (3, 2, 1, 0)
    assert (two.input_tokens, two.output_tokens, two.cost) == (30, 5, 0.75)
    assert (two.first_token_seconds, two.seconds) == (1.0, 3.0)
    assert one.cost is None


ERRORS: tuple[SegueError, ...] = (
    BUSY,
    RateLimitError("Slow down.", status=429, retry_after=5.0),
    RateLimitError("Slow down.", status=429, retry_after=500.0),
    CredentialsError("Wrong key.", status=401),
    QuotaError("No money.", status=402),
    InvalidRequestError("No.", status=400),
    ContextLengthError("Too long.", status=400),
    TransportError("Gone."),
    UsageError("Wrong."),
)


@given(
    st.sampled_from(("single", "round_robin", "failover", "weighted", "least_latency")),
    st.lists(st.tuples(st.sampled_from(ERRORS), st.booleans(), st.booleans(), st.floats(0, 20)), min_size=40),
    st.data(),
)
def test_every_turn_ends_and_stays_once_it_must(
    policy: PolicyName, failures: list[tuple[SegueError, bool, bool, float]], data: st.DataObject
) -> None:
    world = World()
    router = world.router(policy, (A,) if policy == "single" else (A, B, C))
    script = iter(failures)
    for _ in range(3):
        try:
            routing = router.open(Need())
        except RouteError as refusal:
            assert refusal.remedy == "wait"
            world.time += 1 + (refusal.retry_after or 0)
            routing = router.open(Need())
        answered, asked = False, {routing.route.name}
        for _attempt in range(2 * 3 + 1):
            event = next(script, None)
            if event is None or data.draw(st.integers(0, 5)) == 0:
                routing.answered(USAGE, 1.0)
                answered = True
                continue
            error, shown, ran, later = event
            world.time += later
            step = routing.failed(error, shown=shown, ran=ran)
            if isinstance(step, GiveUp):
                break
            assert not shown
            if isinstance(step, GoTo):
                assert not ran
                assert not answered
                assert step.route == routing.route
                assert step.route.name not in asked
                asked.add(step.route.name)
        else:
            assert answered
    assert all(told.requests == told.successes + told.failures + told.aborts for told in router.statistics())
