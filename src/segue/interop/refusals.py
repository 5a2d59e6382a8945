"""What a provider would answer to a transcript as it is, from refusals.toml."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import final

import msgspec
from msgspec import Struct, field


@final
class KnownRefusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of a provider and its words when the rule is broken."""

    kind: str
    code: str
    text: str
    status: int = 400
    when: str = ""
    unless: str = ""
    foreign: bool = False

    def fits(self, kind: str, decision: str, *, foreign: bool) -> bool:
        return (
            kind == self.kind
            and self.when in decision
            and not (self.unless and self.unless in decision)
            and (foreign or not self.foreign)
        )

    def worded(self, *, call_id: str, place: str) -> str:
        return self.text.replace("{id}", call_id or "…").replace("{place}", place)


@final
class ProviderRefusals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the providers of some dialects refuse."""

    dialects: tuple[str, ...]
    refusals: tuple[KnownRefusal, ...] = field(name="refusal")
    place: str = ""
    ids: str = ""
    """Pattern of the call ids that are taken; empty: all are."""
    unique_ids: bool = False

    def refusal(self, kind: str, decision: str = "", *, foreign: bool = False) -> KnownRefusal | None:
        """The answer to what a repair of this kind would change; None if the provider accepts it as it is."""
        return next(
            (refusal for refusal in self.refusals if refusal.fits(kind, decision, foreign=foreign)), None
        )


@lru_cache(maxsize=1)
def groups() -> tuple[ProviderRefusals, ...]:
    table = tomllib.loads(files(__package__).joinpath("refusals.toml").read_text("utf-8"))
    return tuple(msgspec.convert(group, ProviderRefusals) for group in table.values())


@lru_cache(maxsize=64)
def provider_refusals(dialect: str) -> ProviderRefusals:
    """All that is known about a dialect: rules of fewer dialects come first."""
    own = sorted(
        (group for group in groups() if dialect in group.dialects), key=lambda group: len(group.dialects)
    )
    return ProviderRefusals(
        dialects=(dialect,),
        refusals=tuple(refusal for group in own for refusal in group.refusals),
        place=next((group.place for group in own if group.place), "messages[{n}]"),
        ids=next((group.ids for group in own if group.ids), ""),
        unique_ids=any(group.unique_ids for group in own),
    )
