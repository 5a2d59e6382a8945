"""What a check may know besides the request body."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from segue.emulators.signatures import SECRET


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
