"""Which check enforces which rule of the rulebook, and which complaint is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from segue.emulators.refusal import Confidence

if TYPE_CHECKING:
    from segue.emulators.context import Context
    from segue.emulators.refusal import Refusal

F = TypeVar("F", bound=Callable[..., Any])


class Rule(Struct, frozen=True):
    """One rule id and the function that enforces it."""

    id: str
    confidence: Confidence
    module: str
    function: str


REGISTRY: list[Rule] = []


def rule(rule_id: str, confidence: Confidence = "H") -> Callable[[F], F]:
    """Say that a function enforces a rule. The function stays as it is; several rules may be stacked on one."""

    def register(check: F) -> F:
        REGISTRY.append(Rule(rule_id, confidence, check.__module__, check.__qualname__))
        return check

    return register


def enforced(refusal: Refusal, context: Context) -> bool:
    """H rules always, M rules when strict, L rules only when asked for by id."""
    if refusal.rule in context.extra_rules or refusal.confidence == "H":
        return True
    return refusal.confidence == "M" and context.strict


def first_enforced(complaints: Iterable[Refusal], context: Context) -> Refusal | None:
    """The refusal that the server answers with, or None when the request is acceptable."""
    return next((refusal for refusal in complaints if enforced(refusal, context)), None)
