"""A wire's own fields: what is kept of them in reading a request, and how they are written again.

What was read is compared with what we would write for it. The difference is the wire's own, whatever it is, so that reading and
writing give the same JSON again also where fields are new to us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct

from segue.conversation.extra import Extra

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENCODER = msgspec.json.Encoder()
_EMPTY: tuple[Any, ...] = (None, False, "", [], {})


@final
class FieldKinds(Struct, frozen=True):
    """Which of a wire's own fields are no loss on another wire. All that are not listed have a meaning."""

    dialect: str
    hints: frozenset[str] = frozenset()
    form: frozenset[str] = frozenset()

    def kept(
        self,
        given: Mapping[str, Any],
        written: Mapping[str, Any],
        container: Extra | None = None,
    ) -> Extra:
        """What `given` has that `written`, which is what we would write for it, has not."""
        fields: dict[str, Any] = {}
        hints: dict[str, Any] = {}
        form: dict[str, Any] = {}
        for name, value in given.items():
            if name in written and _same(written[name], value):
                continue
            if name in self.hints:
                hints[name] = value
            elif name in self.form or name in written or value in _EMPTY:
                form[name] = value
            else:
                fields[name] = value
        absent = tuple(name for name in written if name not in given)
        return Extra(self.dialect, fields, hints, form, absent, container)

    def found(
        self, given: Mapping[str, Any], written: Mapping[str, Any], container: Extra | None = None
    ) -> Extra | None:
        """The same; None if there is nothing to keep."""
        if container is None and (given is written or given == written):
            return None
        return self.kept(given, written, container)


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def plain(encoded: Any) -> Any:
    """What we would send, as it would be read."""
    return msgspec.json.decode(_ENCODER.encode(encoded))


def as_fields(encoded: Struct) -> dict[str, Any]:
    """A value of a wire as the fields that are sent of it."""
    config = encoded.__struct_config__
    fields: dict[str, Any] = {config.tag_field: config.tag} if config.tag_field and config.tag else {}
    defaults = encoded.__struct_defaults__
    names, first = encoded.__struct_fields__, len(encoded.__struct_fields__) - len(defaults)
    for index, (name, sent) in enumerate(zip(names, encoded.__struct_encode_fields__, strict=True)):
        value = getattr(encoded, name)
        if value is msgspec.UNSET:
            continue
        if config.omit_defaults and index >= first and _is_default(value, defaults[index - first]):
            continue
        fields[sent] = value
    return fields


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    if type(value) in (list, dict):
        return not value
    return bool(type(value) is type(default) and value == default)


def own(extra: Extra | None, dialect: str) -> Extra | None:
    """What a value has of this wire's own; None if that is nothing, or another wire's."""
    return extra if extra is not None and extra.dialect == dialect else None
