"""What a wire takes at each place of a request, as data; and a request fitted to it before it is read.

On its own wire a request goes back as it came, so what came must be such that the wire takes it. A field that we know is
corrected where its value is none that the wire takes there: a number is written as text, text as an object, what is missing
is put in, a mark that cannot be read is dropped. Then the rest of us has to repair what a request means, not its form. What
has a meaning and cannot be corrected is left to its reader, which refuses it.

What we do not know may be newer than these tables. It stays, unless `known_only` is asked for: the provider has refused it,
or nobody will be there to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, Protocol, final

import msgspec
from msgspec import Struct

from segue.dialects.caches.tool_cache import GivenTools
from segue.transcript.repairs import Kind, Repair

UNFIT: Final[Any] = msgspec.UNSET
"""No value that the wire takes can be made of this one."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})


@final
class Fitting:
    """One request that is fitted: what was changed in it, and whether fields that we do not know stay."""

    def __init__(self, dialect: str, *, known_only: bool = False) -> None:
        self.dialect = dialect
        self.known_only = known_only
        self.repairs: list[Repair] = []

    def left(self, value: Any) -> Any:
        """A value that cannot be corrected: for its reader to refuse, if it does; it is not sent where nobody tries again."""
        return UNFIT if self.known_only else value

    def note_correction(self, path: str, wanted: str) -> None:
        self.repairs.append(Repair("field_corrected", self.dialect, path, decision=f"not {wanted}"))

    def note_drop(self, path: str, value: Any, wanted: str = "") -> None:
        """Nothing is lost with an empty value."""
        if value in _EMPTY and wanted:
            self.note_correction(path, wanted)
            return
        where, _, name = path.rpartition(".")
        why = f"not {wanted}" if wanted else "not known"
        if not where:
            self.repairs.append(Repair("option_not_sent", self.dialect, name, decision=why))
        else:
            self.repairs.append(Repair("fields_dropped", self.dialect, where, decision=f"{name}: {why}"))


class Shape(Protocol):
    """What may stand at one place."""

    @property
    def wanted(self) -> str:
        """In words."""
        ...

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        """The value as the wire takes it, the very same if it does as it is; `UNFIT` if it takes none of the kind."""
        ...


def _no_correction(value: Any) -> Any:
    del value
    return UNFIT


@final
class ValueShape(Struct, frozen=True):
    """A value that is looked at as a whole."""

    wanted: str
    accepts: Callable[[Any], bool]
    correct: Callable[[Any], Any] = _no_correction
    knows: Callable[[Any], bool] | None = None
    """What the wire is known to take of the values that it accepts; others may be newer than this table. None: all."""
    is_form: bool = False
    """Whether nothing is lost without it."""
    is_read: bool = False
    """Whether it means something, so that its reader refuses what it cannot read."""

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        if self.accepts(value):
            is_known = self.knows is None or not fitting.known_only or self.knows(value)
            return value if is_known else UNFIT
        corrected = self.correct(value)
        if corrected is UNFIT and self.is_read and value is not None:
            return fitting.left(value)
        if corrected is not UNFIT and corrected is not value:
            fitting.note_correction(path, self.wanted)
        return corrected


@final
class Items(Struct, frozen=True):
    """A list; what does not fit in it is dropped."""

    of: Shape
    wraps: bool = False
    """Whether a single value is taken for a list of one; else it becomes such a list."""
    some: bool = False
    """Whether the list may not be empty."""
    wanted: str = "a list"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        if not isinstance(value, list):
            if value is None or not isinstance(value, str | dict):
                return UNFIT if value is None else fitting.left(value)
            fitted = self.of.fit(value, path, fitting)
            if fitted is UNFIT or self.wraps:
                return fitted
            fitting.note_correction(path, self.wanted)
            return [fitted]
        kept: list[Any] | None = None
        for index, item in enumerate(value):
            place = f"{path}[{index}]"
            fitted = self.of.fit(item, place, fitting)
            if fitted is not item and kept is None:
                kept = value[:index]
            if fitted is UNFIT:
                fitting.note_drop(f"{place}.value", item, self.of.wanted)
            elif kept is not None:
                kept.append(fitted)
        fitted_items = value if kept is None else kept
        return UNFIT if self.some and not fitted_items else fitted_items


@final
class TextOr(Struct, frozen=True):
    """Text, or the longer form: a list of parts, of which one alone becomes a list of one, or an object."""

    text: ValueShape
    other: Shape

    @property
    def wanted(self) -> str:
        return f"{self.text.wanted} or {self.other.wanted}"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        is_part = isinstance(value, dict) and ("type" in value or not isinstance(self.other, Items))
        longer = isinstance(value, list) or is_part
        return (self.other if longer else self.text).fit(value, path, fitting)


def _as_spelled(name: str) -> str:
    return name


@final
class ObjectShape(Struct, frozen=True):
    """An object."""

    known: Mapping[str, Shape]
    needed: Mapping[str, Any] = {}
    """ObjectShape that must be there, and what is written for one that is not, or is none that the wire takes; `UNFIT`: without it
    there is nothing to write."""
    closed: bool = False
    """Whether the wire refuses fields that it does not know."""
    nulls: bool = True
    """Whether null stands for a field that is not there."""
    spelled: Callable[[str], str] = _as_spelled
    """The name in the table for one in a request."""
    correct: Callable[[Any], Any] = _no_correction
    """An object for what is none."""
    some_of: frozenset[str] = frozenset()
    """ObjectShape of which one must be there."""
    is_form: bool = False
    """Whether nothing is lost without it."""
    wanted: str = "an object"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        fitted = self._fit(value, path, fitting)
        if not self.some_of or not isinstance(fitted, dict):
            return fitted
        held = {self.spelled(name) for name, item in fitted.items() if item is not None}
        return UNFIT if self.some_of.isdisjoint(held) and held <= self.known.keys() else fitted

    def _fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        if not isinstance(value, dict):
            corrected = self.correct(value)
            if corrected is UNFIT:
                return UNFIT if value is None or self.is_form else fitting.left(value)
            fitting.note_correction(path, self.wanted)
            value = corrected
        changed: dict[str, Any] = {}
        for name, held in value.items():
            fitted = self._field(name, held, f"{path}.{name}" if path else name, fitting)
            if fitted is not held:
                changed[name] = fitted
        if self.needed:
            for name in self.needed.keys() - {self.spelled(name) for name in value}:
                if self.needed[name] is not UNFIT:
                    fitting.note_correction(f"{path}.{name}", "there")
                changed[name] = _copy(self.needed[name])
        if not changed:
            return value
        fitted = {name: held for name, held in {**value, **changed}.items() if held is not UNFIT}
        lacks = any(default is UNFIT and changed.get(name) is UNFIT for name, default in self.needed.items())
        return fitted if not lacks else UNFIT if self.is_form else fitting.left(value)

    def _field(self, name: str, held: Any, path: str, fitting: Fitting) -> Any:
        ours = self.spelled(name)
        shape = self.known.get(ours)
        if shape is None:
            if self.closed and fitting.known_only:
                fitting.note_drop(path, held)
                return UNFIT
            return held
        if held is None and self.nulls and ours not in self.needed:
            return held
        fitted = shape.fit(held, path, fitting)
        if fitted is not UNFIT:
            return fitted
        if isinstance(shape, ValueShape | ObjectShape) and shape.is_form:
            fitting.note_correction(path, shape.wanted)
        elif self.needed.get(ours) is not UNFIT:
            fitting.note_drop(path, held, shape.wanted)
        return _copy(self.needed.get(ours, UNFIT))


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


@final
class Tagged(Struct, frozen=True):
    """An object whose field `tag` tells what it is."""

    tag: str
    kinds: Mapping[str, Shape]
    other: Shape | None = None
    """Of all other kinds; None: they may be newer than this table."""
    missing: str = ""
    """The kind of what names none."""
    correct: Callable[[Any], Any] = _no_correction
    """An object for what is none."""
    wanted: str = "an object of a known kind"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        if not isinstance(value, dict):
            corrected = self.correct(value)
            if corrected is UNFIT:
                return fitting.left(value)
            fitting.note_correction(path, self.wanted)
            value = corrected
        kind = value.get(self.tag)
        if kind is None:
            kind = self.missing
        shape = self.kinds.get(kind, self.other) if isinstance(kind, str) else self.other
        if shape is not None:
            return shape.fit(value, path, fitting)
        return fitting.left(value)


@final
class Nullable(Struct, frozen=True):
    """A shape, or null, where null is not taken for every field."""

    of: Shape

    @property
    def wanted(self) -> str:
        return self.of.wanted

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        return None if value is None else self.of.fit(value, path, fitting)


def fit_tools(shape: Shape, given: Any, fitting: Fitting) -> Any:
    """Tools as the wire takes them. Those that return in many requests are looked at once."""
    if given is None:
        return given

    def fit() -> tuple[Any, list[Repair]]:
        apart = Fitting(fitting.dialect, known_only=fitting.known_only)
        fitted = shape.fit(given, "tools", apart)
        return given if fitted is UNFIT else fitted, apart.repairs

    what = "fitted", fitting.dialect, fitting.known_only
    fitted, repairs = given.once(what, fit) if type(given) is GivenTools else fit()
    fitting.repairs += repairs
    return fitted


def joined_repairs(fitted: Iterable[Repair], read: Iterable[Repair]) -> tuple[Repair, ...]:
    """Those of fitting a request, and of reading it then, which fits what is still empty once more."""
    fitted = tuple(fitted)
    places = {repair.path for repair in fitted}
    again = [repair for repair in read if repair.kind != "field_corrected" or repair.path not in places]
    return (*fitted, *again)


def known_fields(shape: Shape, body: Any, dialect: str) -> tuple[Any, tuple[Repair, ...]]:
    """A request without what we do not know, where its wire refuses that, and in all else as the wire takes it."""
    fitting = Fitting(dialect, known_only=True)
    fitted = shape.fit(body, "", fitting)
    return (body if fitted is UNFIT else fitted), tuple(_by_place(fitting.repairs))


def _by_place(repairs: list[Repair]) -> Iterator[Repair]:
    """The unknown fields of one place as one repair: rows of a database have the same ones in each message."""
    for (kind, path, why), group in groupby(repairs, _dropped_at):
        same = [*group]
        if len(same) == 1 or kind != "fields_dropped":
            yield from same
        else:
            names = ", ".join(repair.decision.partition(": ")[0] for repair in same)
            yield Repair(kind, same[0].dialect, path, decision=f"{names}: {why}")


def _dropped_at(repair: Repair) -> tuple[Kind, str, str]:
    return repair.kind, repair.path, repair.decision.partition(": ")[2]
