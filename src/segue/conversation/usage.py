"""What a reply cost, in tokens."""

from __future__ import annotations

from typing import final

from msgspec import Struct, structs


@final
class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Counts as one provider-neutral reckoning. `None`: the provider did not report it.

    `input_tokens` is all of the input, `cached_tokens` the part of it read from a cache and `cache_write_tokens` the
    part written to one. `output_tokens` is all of the output, `reasoning_tokens` the part of it that was thought.
    What is written for an hour, and what is heard or spoken, has prices of its own at some providers; `None` also if there was
    nothing of it.
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

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def updated(self, newer: Usage) -> Usage:
        """These counts, replaced by the newer ones as far as those are known."""
        known = {
            name: value for name in self.__struct_fields__ if (value := getattr(newer, name)) is not None
        }
        return structs.replace(self, **known) if known else self

    def plus(self, other: Usage) -> Usage:
        """Both together. What neither knows stays unknown."""
        counts = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return Usage(*[mine if more is None else (mine or 0) + more for mine, more in counts])


NO_USAGE = Usage()
"""Of what no model was asked for, or where none was reported."""
