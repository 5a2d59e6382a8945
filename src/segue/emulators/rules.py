"""What a check is given, what it answers, and which rule of the rulebook it enforces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct, field

from segue.emulators.signatures import SECRET

F = TypeVar("F", bound=Callable[..., Any])
Confidence = Literal["H", "M", "L"]


class Context(Struct, frozen=True, kw_only=True):
    """The circumstances of one request: who asks, for which model, and how strict we are."""

    model: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the model, from model_facts.toml, matched by pattern on the model's name."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers with lower-case names."""
    account: str = "default"
    platform: str = "api"
    strict: bool = False
    extra_rules: frozenset[str] = frozenset()
    """Ids of L rules to enforce all the same."""
    sends_whole: bool = False
    """Replies come whole, also where a stream is asked for."""
    secret: bytes = SECRET
    """What seals are made with (signatures.py)."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What this provider's emulator has issued and stored so far, e.g. responses by id; empty in a pure check."""
    cached_tokens: int = 0
    """Tokens at the start of the prompt that an earlier request of the same account and model had in common."""
    segment_tokens: int = 0
    """Tokens of the whole prompt in the same measure as `cached_tokens`; 0 when that is the provider's own measure."""
    reply_id: str = ""
    """A fresh identifier (letters and digits) from which a reply derives the ids it issues; "" in a pure check."""
    now: int = 1_770_933_892
    """Seconds since 1970, for `created` fields."""

    def cached_of(self, prompt: int) -> int:
        """The cached part of a prompt of so many tokens as the provider counts them: the same share of it."""
        if not self.segment_tokens:
            return min(self.cached_tokens, prompt)
        return prompt * self.cached_tokens // self.segment_tokens


class Refusal(Struct, frozen=True):
    """One broken rule. `rule` is its id in the rulebook, e.g. ``ANT-20``; the rest is what goes on the wire."""

    rule: str
    message: str
    status: int = 400
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    confidence: Confidence = "H"
    """H rules are always enforced, M rules when `Context.strict`, L rules only when asked for by id."""
    retry_after: float | None = None
    """Seconds after which the provider invites to try again, where it says so."""
    unsupported: tuple[str, ...] = ()
    """What of the request cannot be combined, where the provider lists that."""
    plain: bool = False
    """The answer is the bare message as text, without the provider's envelope."""


Complaints: TypeAlias = Iterator[Refusal]
"""What a check yields: every rule that a request breaks, in the provider's order."""


class RefusedError(Exception):
    """Ends the handling of a request; the app then answers with the refusal in the provider's envelope."""

    def __init__(self, refusal: Refusal, context: Context) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.context = context


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


def enforce(complaints: Iterable[Refusal], context: Context) -> None:
    """Raises RefusedError for the first complaint that counts."""
    refusal = first_enforced(complaints, context)
    if refusal is not None:
        raise RefusedError(refusal, context)
