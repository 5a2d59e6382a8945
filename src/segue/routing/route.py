"""Where a turn goes: a provider, a model and the options that hold there."""

from __future__ import annotations

from typing import final

from msgspec import Struct

from segue.conversation.options import Options
from segue.errors import UsageError


@final
class Route(Struct, frozen=True, kw_only=True):
    """Pinned for all exchanges of a turn."""

    provider: str
    model: str
    options: Options = Options()
    context: int | None = None
    """Tokens that fit; None: as the model's card or its provider says."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_route(name: str, options: Options = Options()) -> Route:  # noqa: B008 - a frozen value
    """`provider/model` or `provider:model`; only the first separator counts, models have their own."""
    cut = min((at for at in (name.find("/"), name.find(":")) if at >= 0), default=-1)
    provider, model = name[:cut].strip(), name[cut + 1 :].strip()
    if cut < 0 or not provider or not model:
        raise UsageError(
            f'"{name}" names no provider and model.',
            code="bad_model_name",
            hint="Write provider/model, for example anthropic/claude-sonnet-4-6.",
        )
    return Route(provider=provider, model=model, options=options)
