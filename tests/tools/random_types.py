"""Random types of parameters with notes of every library, and what each must accept and refuse.

Each type knows JSON values that fit it, values that break exactly one of its rules, and the words that a model must read.
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable
from datetime import datetime, time
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import annotated_types as at
import pydantic
from hypothesis import strategies as st
from msgspec import Meta, Struct, defstruct
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import Doc, TypeAliasType

T = TypeVar("T")


class RandomType(NamedTuple):
    """A type, and what it means."""

    annotation: Any
    good: list[Any]
    bad: list[Any]
    words: tuple[str, ...] = ()


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class StructBox(Struct, Generic[T]):
    held: T


class ModelBox(BaseModel, Generic[T]):
    held: T


@dataclasses.dataclass
class DataBox(Generic[T]):
    held: T


class TypedBox(TypedDict, Generic[T]):
    held: T


class StructTree(Struct):
    value: Annotated[int, Meta(ge=1)]
    below: list[StructTree] = []


class ModelTree(BaseModel):
    value: int = Field(ge=1)
    below: list[ModelTree] = []


@dataclasses.dataclass
class DataTree:
    value: Annotated[int, at.Ge(1)]
    below: list[DataTree] = dataclasses.field(default_factory=list)


_TREES = [
    RandomType(
        tree,
        [{"value": 1}, {"value": 2, "below": [{"value": 1}]}],
        [{"value": 0}, {"value": 1, "below": [{"value": 0}]}],
    )
    for tree in (StructTree, ModelTree, DataTree)
]
_PLAIN = [
    RandomType(bool, [True], [1, "true"]),
    RandomType(int, [3], ["3", 1.5]),
    RandomType(float, [1.5, 2], ["1.5"]),
    RandomType(str, ["a"], [1, None]),
    RandomType(Literal["a", "b"], ["a"], ["c"]),
    RandomType(Literal["a", 3], ["a", 3], ["3"]),
    RandomType(Color, ["red"], ["green", "RED"]),
    RandomType(Level, [2], [3]),
    RandomType(type(None), [None], [0]),
    RandomType(datetime, ["2026-11-18T10:00:00", "2026-11-18T10:00:00Z"], [3], ("date-time",)),
    RandomType(time, ["10:00:00"], [3], ("'format': 'time'",)),
]

_Notes = Callable[[dict[str, Any]], list[Any]]


def _by_annotated_types(facts: dict[str, Any]) -> list[Any]:
    made = {"ge": at.Ge, "gt": at.Gt, "le": at.Le, "lt": at.Lt, "multiple_of": at.MultipleOf,
            "min_length": at.MinLen, "max_length": at.MaxLen}  # fmt: skip
    notes = [made[key](value) for key, value in facts.items() if key in made]
    if "pattern" in facts:
        notes.append(Meta(pattern=facts["pattern"]))
    return [*notes, *([Doc(facts["description"])] if "description" in facts else [])]


def _grouped(facts: dict[str, Any]) -> list[Any]:
    numbers = {key: value for key, value in facts.items() if key in ("ge", "gt", "le", "lt")}
    lengths = {key: value for key, value in facts.items() if key in ("min_length", "max_length")}
    rest = {key: value for key, value in facts.items() if key not in {*numbers, *lengths}}
    notes: list[Any] = [at.Interval(**numbers)] if numbers else []
    if lengths:
        notes.append(at.Len(lengths.get("min_length", 0), lengths.get("max_length")))
    return notes + ([Field(**rest)] if rest else [])


SPELLINGS: dict[str, _Notes] = {
    "msgspec": lambda facts: [Meta(**facts)],
    "pydantic": lambda facts: [Field(**facts)],
    "annotated_types": _by_annotated_types,
    "grouped": _grouped,
    "one by one": lambda facts: [Meta(**{key: value}) for key, value in facts.items()],
    "mixed": lambda facts: [
        (Meta if number % 2 else Field)(**{key: value}) for number, (key, value) in enumerate(facts.items())
    ],
}

_NUMBERS = [
    ({"ge": 2}, [2, 3], [1]),
    ({"gt": 2}, [3], [2]),
    ({"le": 7}, [7], [8]),
    ({"lt": 7}, [6], [7]),
    ({"ge": 2, "le": 7}, [2, 7], [1, 8]),
    ({"multiple_of": 3}, [6], [7]),
]
_LENGTHS = [({"min_length": 2}, 2, 1), ({"max_length": 2}, 2, 3), ({"min_length": 1, "max_length": 2}, 1, 3)]


def _noted(annotation: Any, notes: list[Any]) -> Any:
    for note in notes:
        annotation = Annotated[annotation, note]
    return annotation


_described = st.sampled_from(["", "", "In words."])
_spelled = st.sampled_from(sorted(SPELLINGS))


@st.composite
def numbers(draw: st.DrawFn) -> RandomType:
    base = draw(st.sampled_from([int, float]))
    facts, good, bad = draw(st.sampled_from(_NUMBERS))
    words = draw(_described)
    given = {**facts, **({"description": words} if words else {})}
    return RandomType(_noted(base, SPELLINGS[draw(_spelled)](given)), good, bad, (words,) if words else ())


@st.composite
def texts(draw: st.DrawFn) -> RandomType:
    facts: dict[str, Any]
    if draw(st.booleans()):
        facts, good, bad = {"pattern": "^a+$"}, ["aa"], ["b"]
    else:
        facts, fits, fails = draw(st.sampled_from(_LENGTHS))
        good, bad = ["x" * fits], ["x" * fails]
    words = draw(_described)
    given = {**facts, **({"description": words} if words else {})}
    return RandomType(_noted(str, SPELLINGS[draw(_spelled)](given)), good, bad, (words,) if words else ())


def _of(kind: Any, *arguments: Any) -> Any:
    return kind[arguments]


def _lists(inner: RandomType) -> list[RandomType]:
    held, first = inner.annotation, inner.good[0]
    lists = [_of(kind, held) for kind in (list, typing.Sequence, typing.List)]  # noqa: UP006 - an older spelling
    bad_lists = [[bad] for bad in inner.bad]
    made = [
        RandomType(kind, [[first], []], [*bad_lists, "text"], inner.words)
        for kind in [*lists, _of(tuple, held, ...)]
    ]
    bad_pairs = [*([bad, 1] for bad in inner.bad), [first], [first, "x"]]
    made.append(RandomType(_of(tuple, held, int), [[first, 1]], bad_pairs, inner.words))
    if not isinstance(first, list | dict):
        made += [RandomType(_of(kind, held), [[first]], bad_lists, inner.words) for kind in (set, frozenset)]
    bad_dicts = [*({"k": bad} for bad in inner.bad), []]
    made += [
        RandomType(_of(kind, str, held), [{"k": first}, {}], bad_dicts, inner.words)
        for kind in (dict, typing.Mapping)
    ]
    return made


@st.composite
def containers(draw: st.DrawFn, inner: RandomType) -> RandomType:
    made: RandomType = draw(st.sampled_from(_lists(inner)))
    if draw(st.booleans()):
        return made
    # Bounds of the container itself, where one item more or less is easy to say.
    if not isinstance(made.good[0], list) or typing.get_origin(made.annotation) is tuple:
        return made
    facts = {"min_length": 1}
    words = draw(_described)
    given = {**facts, **({"description": words} if words else {})}
    notes = SPELLINGS[draw(_spelled)](given)
    return RandomType(
        _noted(made.annotation, notes),
        [[inner.good[0]]],
        [*made.bad, []],
        (*made.words, *((words,) if words else ())),
    )


@st.composite
def optionals(draw: st.DrawFn, inner: RandomType) -> RandomType:
    bad = [value for value in inner.bad if value is not None]
    members = (None, inner.annotation) if draw(st.booleans()) else (inner.annotation, None)
    whole = _of(typing.Union, *members)
    return RandomType(whole, [*inner.good, None], bad, inner.words)


@st.composite
def bounded_optionals(draw: st.DrawFn) -> RandomType:
    """The note stands beside the union."""
    facts, good, bad = draw(st.sampled_from(_NUMBERS))
    return RandomType(_noted(int | None, SPELLINGS[draw(_spelled)](facts)), [*good, None], bad)


@st.composite
def unions(draw: st.DrawFn, inner: RandomType) -> RandomType:
    """With a type whose values are unlike those of the other."""
    if any(isinstance(value, bool | str) for value in (*inner.good, *inner.bad)):
        return inner
    other = draw(
        st.sampled_from(
            [
                RandomType(str, ["a"], []),
                RandomType(Literal["on"], ["on"], ["off"]),
                RandomType(Color, ["red"], ["green"]),
            ]
        )
    )
    return RandomType(
        inner.annotation | other.annotation, [*inner.good, *other.good], [*inner.bad, *other.bad], inner.words
    )


@st.composite
def classes(draw: st.DrawFn, inner: RandomType) -> RandomType:
    """A class with such a field, of every library, or a generic one."""
    kind = draw(st.sampled_from(sorted(_CLASSES)))
    optional = draw(st.booleans())
    default = inner.good[0]
    may_miss = optional and isinstance(default, int | str | None)
    try:
        annotation, may_miss = _CLASSES[kind](inner.annotation, may_miss, default)
    except (TypeError, ValueError, pydantic.PydanticUserError):
        return inner  # a library refuses to make such a class at all
    good: list[Any] = [{"held": value} for value in inner.good]
    bad: list[Any] = [{"held": value} for value in inner.bad]
    (good if may_miss else bad).append({})
    if kind == "NamedTuple":
        good, bad = [[value["held"]] for value in good if value], [[value["held"]] for value in bad if value]
    return RandomType(annotation, good, bad, inner.words)


def _typed_dict(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    return TypedDict("Held", {"held": NotRequired[annotation] if may_miss else annotation}), may_miss  # type: ignore[operator]


def _named_tuple(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    return NamedTuple("Held", [("held", annotation)]), False


def _dataclass(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    field = ("held", annotation, dataclasses.field(default=default)) if may_miss else ("held", annotation)
    return dataclasses.make_dataclass("Held", [field]), may_miss


def _pydantic_dataclass(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    return pydantic_dataclass(_dataclass(annotation, may_miss, default)[0]), may_miss


def _struct(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    return defstruct("Held", [("held", annotation, default) if may_miss else ("held", annotation)]), may_miss


def _model(annotation: Any, may_miss: bool, default: Any) -> tuple[Any, bool]:
    return pydantic.create_model("Held", held=(annotation, default if may_miss else ...)), may_miss


def _generic(box: Any) -> Callable[[Any, bool, Any], tuple[Any, bool]]:
    return lambda annotation, _may_miss, _default: (box[annotation], False)


_CLASSES: dict[str, Callable[[Any, bool, Any], tuple[Any, bool]]] = {
    "TypedDict": _typed_dict,
    "NamedTuple": _named_tuple,
    "dataclass": _dataclass,
    "pydantic dataclass": _pydantic_dataclass,
    "Struct": _struct,
    "BaseModel": _model,
    "generic Struct": _generic(StructBox),
    "generic BaseModel": _generic(ModelBox),
    "generic dataclass": _generic(DataBox),
    "generic TypedDict": _generic(TypedBox),
}


@st.composite
def renamed(draw: st.DrawFn, inner: RandomType) -> RandomType:
    if draw(st.booleans()):
        return inner._replace(annotation=TypeAliasType("Renamed", inner.annotation))
    return inner._replace(annotation=typing.NewType("Renamed", inner.annotation))


leaves = st.one_of(st.sampled_from(_PLAIN), numbers(), texts(), st.sampled_from(_TREES), bounded_optionals())


def _around(inner: st.SearchStrategy[RandomType]) -> st.SearchStrategy[RandomType]:
    return st.one_of(*(inner.flatmap(make) for make in (containers, optionals, unions, classes, renamed)))


random_types = st.recursive(leaves, _around, max_leaves=6)
