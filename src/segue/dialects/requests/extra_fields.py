"""A wire's own fields: what is kept of them in reading a request, and how they are written again.

What was read is compared with what we would write for it. The difference is the wire's own, whatever it is, so that reading and
writing give the same JSON again also where fields are new to us.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Reasoning
from segue.conversation.extra import Extra
from segue.conversation.json_safe import is_json_safe, json_safe
from segue.transcript.blocks.value_text import is_object_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.transcript.blocks.foreign_fields import HasExtra


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
            kept = value if is_json_safe(value) else json_safe(value)
            if name in self.hints:
                hints[name] = kept
            elif name in self.form or name in written or value in _EMPTY:
                form[name] = kept
            else:
                fields[name] = kept
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
    return one is other or (one == other and isinstance(one, bool) is isinstance(other, bool))


def plain(encoded: Any) -> Any:
    """What we would send, as it would be read."""
    if isinstance(encoded, Struct):
        return {name: plain(value) for name, value in as_fields(encoded).items()}
    if isinstance(encoded, dict):
        return {name: plain(value) for name, value in encoded.items()}
    if isinstance(encoded, list):
        return [plain(value) for value in encoded]
    return msgspec.json.decode(encoded) if isinstance(encoded, msgspec.Raw) else encoded


def as_fields(encoded: Struct) -> dict[str, Any]:
    """A value of a wire as the fields that are sent of it."""
    start, names = _layout(type(encoded))
    fields = start.copy()
    for name, sent, omitted, default in names:
        value = getattr(encoded, name)
        if value is not msgspec.UNSET and not (omitted and _is_default(value, default)):
            fields[sent] = value
    return fields


@cache
def _layout(kind: type[Struct]) -> tuple[dict[str, Any], tuple[tuple[str, str, bool, Any], ...]]:
    """What every value of a kind begins with; and of each field its names, whether a default is omitted, and which."""
    config, defaults = kind.__struct_config__, kind.__struct_defaults__
    names = kind.__struct_fields__
    first = len(names) - len(defaults)
    start = {config.tag_field: config.tag} if config.tag_field and config.tag else {}
    return start, tuple(
        (
            name,
            sent,
            config.omit_defaults and index >= first,
            defaults[index - first] if index >= first else None,
        )
        for index, (name, sent) in enumerate(zip(names, kind.__struct_encode_fields__, strict=True))
    )


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    if type(value) in (list, dict):
        return not value
    return bool(type(value) is type(default) and value == default)


def parts_as_came(
    parts: list[Any], text: str, shown: Sequence[dict[str, Any]]
) -> list[dict[str, Any] | int | str]:
    """Parts of a result to be kept: without the text and the media, which the result itself has."""
    return [
        shown.index(part)
        if part in shown
        else {name: value for name, value in part.items() if name != "text"}
        if isinstance(part, dict) and part.get("text") == text
        else part
        for part in parts
    ]


def filled_parts(
    parts: Any, text: str, shown: Sequence[dict[str, Any]], read: Callable[[list[Any]], str]
) -> list[Any] | None:
    """The kept parts of a result with its text and media in them; None if they are those of another result.

    `read` is how the text is read from such parts.
    """
    filled: list[Any] = []
    used = others = 0
    for part in parts if isinstance(parts, list) else ():
        if type(part) is int:
            used += 1
            if part >= len(shown):
                return None
            filled.append(shown[part])
        elif isinstance(part, dict) and "text" not in part and str(part.get("type")).endswith("text"):
            filled.append({**part, "text": text})
        else:
            others += 1
            filled.append(part)
    return filled if used <= len(shown) <= used + others and read(filled) == text else None


def own(extra: Extra | None, dialect: str) -> Extra | None:
    """What a value has of this wire's own; None if that is nothing, or another wire's."""
    return extra if extra is not None and extra.dialect == dialect else None


def container_of(blocks: Sequence[HasExtra], dialect: str) -> Extra | None:
    """What the message that these blocks came in has of its own; a thought may have been put in front of them."""
    for block in blocks:
        extra = block.extra
        if extra is not None and extra.container is not None and extra.dialect == dialect:
            return extra.container
        if type(block) is not Reasoning or extra is not None:
            return None
    return None


def with_container(message: Struct, extra: Extra | None, dialect: str) -> Any:
    """A message as it came; `extra` is that of its first block."""
    around = extra.container if extra is not None and extra.dialect == dialect else None
    return message if around is None else around.written(as_fields(message))


def with_parts(
    extra: Extra | None,
    dialect: str,
    content: Any,
    text: str,
    shown: Sequence[dict[str, Any]] = (),
    field: str = "content",
) -> Extra | None:
    """What a result has of its own, with the parts that its text and media came in."""
    if not isinstance(content, list) or not content:
        return extra
    kept = extra if extra is not None else Extra(dialect)
    return structs.replace(kept, form={**kept.form, field: parts_as_came(content, text, shown)})


def _is_corrected(came: Any, ours: Any) -> bool:
    """Whether arguments are sent as we write them, since they came as no object, or are checked as one."""
    if isinstance(came, str):
        return isinstance(ours, str) and bool(came.strip()) and not is_object_text(came)
    return type(ours) is msgspec.Raw


def own_call(fields: dict[str, Any], extra: Extra, inner: str, came_as: str = "") -> dict[str, Any]:
    """A call as it came; the name and the id of the object inside stay those that the target takes. `came_as`: the
    other spelling of `inner`."""
    written = extra.written(fields)
    place = inner if inner in written else came_as
    came, ours = written.get(place), fields.get(inner)
    if not isinstance(came, dict) or ours is None or came is ours:
        return written
    given = as_fields(ours) if isinstance(ours, Struct) else ours
    changed = {
        key: given[key] for key in ("name", "id") if key in given and given[key] != came.get(key, given[key])
    }
    if given.get("id"):  # a result has it, so its call does
        changed["id"] = given["id"]
    changed |= {
        key: given[key]
        for key in ("arguments", "args")
        if key in came and _is_corrected(came[key], given.get(key))
    }
    if changed:
        written[place] = {**came, **changed}
    return written


def own_result(
    result: Struct,
    text: str,
    extra: Extra,
    read: Callable[[list[Any]], str],
    shown: Sequence[dict[str, Any]] = (),
    field: str = "content",
) -> dict[str, Any]:
    """A result as it came, if it is still the same."""
    fields = as_fields(result)
    came = extra.form.get(field)
    if came in (None, "") and text:  # it came without any; where the field stands is as we write it
        form = {name: value for name, value in extra.form.items() if name != field}
        absent = tuple(name for name in extra.absent if name != field)
        return structs.replace(extra, form=form, absent=absent).written(fields)
    written = extra.written(fields)
    if isinstance(came, list):
        parts = filled_parts(came, text, shown, read)
        written[field] = fields[field] if parts is None else parts
    return written
