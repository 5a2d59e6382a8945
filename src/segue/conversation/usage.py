"""What a reply cost, in tokens."""

from __future__ import annotations

from typing import final

from msgspec import Struct, structs


@final
class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts of a reply, the same for every provider. `None`: the provider did not report it.

    `input_tokens` is all of the input, `cached_tokens` the part of it read from a cache and `cache_write_tokens` the
    part written to one. `output_tokens` is all of the output, `reasoning_tokens` the part of it that was thought.
    What is written for an hour, what is heard or spoken, and what a provider's own tools did has prices of its own at some
    providers; `None` also if there was nothing of it.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_hour_tokens: int | None = None
    """The part of `cache_write_tokens` that is kept for an hour."""
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    web_searches: int | None = None
    """That the provider made for the reply."""
    file_searches: int | None = None
    """The same in files that it keeps."""
    other_tool_runs: int | None = None
    """Of the provider's own tools, whose price does not follow from a reply, such as a price by the time they run."""
    tier: str | None = None
    """How the reply was made, if not in the usual way: `flex`, `priority`, `batch` and other words of providers, with spaces
    between several."""
    charged: float | None = None
    """Dollars, by the provider's own word."""
    estimated: bool = False
    """Whether some of the counts are an estimate, for the provider has not counted all of it."""
    cache_miss: str | None = None
    """Why less was read from a cache than might have been: the provider's own word, where it has one."""

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def updated(self, newer: Usage) -> Usage:
        """These counts, replaced by the newer ones as far as those are known."""
        if self is NO_USAGE:
            return newer
        known = {name: value for name in _KNOWABLE if (value := getattr(newer, name)) is not None}
        if newer.estimated:
            known["estimated"] = True
        return structs.replace(self, **known) if known else self

    def plus(self, other: Usage) -> Usage:
        """Both together. What neither knows stays unknown."""
        counts = {
            name: mine if more is None else (mine or 0) + more
            for name in _COUNTS
            for mine, more in [(getattr(self, name), getattr(other, name))]
        }
        estimated = self.estimated or other.estimated
        miss = self.cache_miss or other.cache_miss
        return Usage(**counts, tier=self._tier_with(other), estimated=estimated, cache_miss=miss)

    def _tier_with(self, other: Usage) -> str | None:
        if self.tier == other.tier or other.total_tokens is None:
            return self.tier
        return other.tier if self.total_tokens is None else MIXED_TIERS


MIXED_TIERS = "mixed"
"""Of what was made in several ways: together it has no price."""
_KNOWABLE = tuple(name for name in Usage.__struct_fields__ if name != "estimated")
_COUNTS = tuple(name for name in _KNOWABLE if name not in ("tier", "cache_miss"))
NO_USAGE = Usage()
"""Of what no model was asked for, or where none was reported."""
