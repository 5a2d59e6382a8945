# Written by python -m scripts.namespaces --write

from segue.routing.balancer import Balancer, Failover, LeastLatency, RoundRobin, Weighted
from segue.routing.breaker import BreakerSettings
from segue.routing.members import Member
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import Facts, MemberFacts, Route, facts_from, parse_route
from segue.routing.router import GiveUp, GoTo, Need, NextStep, Retry, Router, Routing, SingleRouter, Skipped
from segue.routing.statistics import MemberStatistics

__all__ = [
    "Balancer",
    "BreakerSettings",
    "Facts",
    "Failover",
    "GiveUp",
    "GoTo",
    "LeastLatency",
    "Member",
    "MemberFacts",
    "MemberStatistics",
    "Need",
    "NextStep",
    "Profile",
    "Retry",
    "RetrySettings",
    "RoundRobin",
    "Route",
    "Router",
    "Routing",
    "SingleRouter",
    "Skipped",
    "Weighted",
    "build_router",
    "facts_from",
    "parse_route",
]
