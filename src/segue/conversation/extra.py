"""What came with a block, a tool or a request and is its wire's own affair.

A wire's own fields stay on the very value they came on, tagged with the dialect. That wire gets them back where they were; no
other wire is ever sent them.
"""

from __future__ import annotations

from typing import Any, final

from msgspec import Struct


@final
class Extra(Struct, frozen=True, gc=False, omit_defaults=True):
    """Fields of one wire that our own values have no place for. Empty: only the form is the wire's own."""

    dialect: str
    fields: dict[str, Any] = {}
    """Those with a meaning; on another wire it is lost."""
    hints: dict[str, Any] = {}
    """Marks that only help the provider, such as those for its cache; without them nothing is lost."""
    form: dict[str, Any] = {}
    """How it was written: ids of items, states, nulls. It means nothing anywhere else."""
    absent: tuple[str, ...] = ()
    """Fields that we would write and that were not there."""
    container: Extra | None = None
    """The same of the message, item or list entry that begins with this value."""

    @property
    def reported(self) -> bool:
        """Whether another wire gets less than this one."""
        return bool(self.fields or self.hints) or (self.container is not None and self.container.reported)

    def written(self, encoded: dict[str, Any]) -> dict[str, Any]:
        """The fields as we would write them, changed to the way they came. A list that came empty stays so only if it still is."""
        if self.absent:
            encoded = {name: value for name, value in encoded.items() if name not in self.absent}
        form = {
            name: value
            for name, value in self.form.items()
            if value or type(listed := encoded.get(name)) is not list or not listed
        }
        return {**encoded, **form, **self.hints, **self.fields}
