"""Every kind of parameter: what the model reads of its type, and what is checked before the call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import annotated_types as at
import pytest
from hypothesis import given
from msgspec import Meta, Struct
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, conint, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import Doc, TypeAliasType

from segue import Chat, ScriptedProvider
from segue.conversation.blocks import ToolCall
from segue.errors import UsageError
from segue.providers import calls, says
from segue.tools.arguments import problem_with
from segue.tools.definition import Context
from segue.tools.function_tools import as_tool
from tools.random_types import DataTree, ModelTree, RandomType, StructTree, random_types


class Unit(Enum):
    KM = "km"
    MILES = "mi"


class City(BaseModel):
    """A pydantic model with a rule that no schema has."""

    name: str = Field(min_length=1, description="In English.")
    people: Annotated[int, Field(ge=0)] = 0

    @field_validator("name")
    @classmethod
    def capital(cls, name: str) -> str:
        if not name[:1].isupper():
            raise ValueError("begin it with a capital letter")
        return name


@pydantic_dataclass
class Held:
    city: City


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Bounded:
    """A plain dataclass with a bound that only pydantic reads."""

    count: Annotated[int, at.Ge(1)]


@dataclass
class Fielded:
    count: int = Field(default=2, ge=1, description="How many.")


class Typed(TypedDict):
    note: Annotated[str, Meta(max_length=3)]


class Pair(NamedTuple):
    left: int
    right: int


class Area(Struct):
    width: Annotated[int, Meta(gt=0, description="In metres.")]


class Square(Struct, tag="square"):
    side: int


class Circle(Struct, tag="circle"):
    radius: int


class Files(Struct):
    paths: list[Path]


UserId = NewType("UserId", int)
Count = NewType("Count", Annotated[int, at.Ge(1), at.Le(9), "How many."])
Counted = TypeAliasType("Counted", Annotated[int, Field(ge=1, le=9, description="How many.")])
T = TypeVar("T")
Listed = TypeAliasType("Listed", list[T], type_params=(T,))
Nested = TypeAliasType("Nested", "list[Nested] | int")


class Box(BaseModel, Generic[T]):
    held: T


def even(number: int) -> int:
    if number % 2:
        raise ValueError("it is odd")
    return number


def schema_of(annotation: Any) -> dict[str, Any]:
    parameters = as_tool(function_of(annotation)).spec.parameters
    assert parameters is not None
    return {**parameters["properties"]["it"], "$defs": parameters.get("$defs")}


def function_of(annotation: Any) -> Callable[..., Any]:
    def take(it: Any) -> Any:
        return it

    take.__annotations__["it"] = annotation
    return take


def received(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What the function returns; what the model reads where it is not called."""
    tool = as_tool(function)
    if problem := problem_with(ToolCall("c", "take", arguments), tool.spec, tool.check):
        return problem
    context = Context(abort=asyncio.Event(), progress=print)

    async def run() -> Any:
        return await tool.run(arguments, context)

    return asyncio.run(run())


ACCEPTED: list[tuple[Any, Any, Any]] = [
    (City, {"name": "Oslo"}, City(name="Oslo")),
    (Held, {"city": {"name": "Oslo"}}, Held(City(name="Oslo"))),
    (list[City], [{"name": "Oslo", "people": 3}], [City(name="Oslo", people=3)]),
    (dict[str, City] | None, {"a": {"name": "Oslo"}}, {"a": City(name="Oslo")}),
    (City | None, None, None),
    (Point, {"x": 1}, Point(1)),
    (Typed, {"note": "abc"}, {"note": "abc"}),
    (Pair, [1, 2], Pair(1, 2)),
    (Area, {"width": 2}, Area(2)),
    (Square | Circle, {"type": "circle", "radius": 2}, Circle(2)),
    (Unit, "mi", Unit.MILES),
    (Literal["a", 3], 3, 3),
    (int | str, "7", "7"),
    (UserId, 7, 7),
    (set[date], ["2026-01-02"], {date(2026, 1, 2)}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    # Unions that neither library reads: the type that fits, and of several the one that knows more.
    (Point | Area, {"width": 2}, Area(2)),
    (City | Area, {"name": "Oslo"}, City(name="Oslo")),
    (City | Area | None, None, None),
    (Point | Bounded, {"count": 1}, Bounded(1)),
    (Annotated[int, Field(ge=1)], 1, 1),
    (Annotated[int, AfterValidator(even)], 2, 2),
    (conint(gt=3), 4, 4),
    (Path, "a/b", Path("a/b")),
    (Files, {"paths": ["a"]}, Files([Path("a")])),
    (IPv4Address, "127.0.0.1", IPv4Address("127.0.0.1")),
    (Annotated[date, at.Ge(date(2026, 1, 1))], "2026-01-02", date(2026, 1, 2)),
    (Listed[int], [1], [1]),
]


@pytest.mark.parametrize(("annotation", "given", "value"), ACCEPTED)
def test_arguments_of_every_kind_arrive_as_their_type(annotation: Any, given: Any, value: Any) -> None:
    assert received(function_of(annotation), {"it": given}) == value


NUMBER = {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."}
SAME: list[Any] = [
    Annotated[int, Field(ge=1, le=9, description="How many.")],
    Annotated[int, Meta(ge=1, le=9, description="How many.")],
    Annotated[int, at.Ge(1), at.Le(9), Doc("How many.")],
    Annotated[int, at.Interval(ge=1, le=9), "How many."],
    Annotated[int, Field(ge=1), Meta(le=9), "How many."],
    Annotated[int, AfterValidator(even), Meta(ge=1, le=9, description="How many.")],
    Annotated[int, at.Predicate(bool), Meta(ge=1, le=9, description="How many.")],
    Count,
    Counted,
]


@pytest.mark.parametrize("annotation", SAME)
def test_bounds_and_descriptions_of_every_library_reach_the_schema_and_are_checked(annotation: Any) -> None:
    schema = schema_of(annotation)
    assert {key: schema.get(key) for key in NUMBER} == NUMBER
    assert received(function_of(annotation), {"it": 4}) == 4
    assert "greater than the maximum" in received(function_of(annotation), {"it": 10})


def test_bounds_are_found_wherever_they_stand() -> None:
    assert schema_of(list[Annotated[int, at.Ge(1)]])["items"] == {"type": "integer", "minimum": 1}
    assert schema_of(Annotated[list[str], at.Len(1, 3)]) == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": 3,
        "$defs": None,
    }
    assert {"type": "integer", "minimum": 1} in schema_of(Annotated[int | None, at.Ge(1), "A note."])["anyOf"]
    assert schema_of(Annotated[int | None, at.Ge(1), "A note."])["description"] == "A note."
    assert schema_of(Annotated[Area, Field(description="Where.")])["description"] == "Where."
    assert schema_of(dict[str, Annotated[City, Meta(description="Which.")]])["additionalProperties"][
        "description"
    ] == ("Which.")
    assert schema_of(Bounded)["$defs"] is None
    assert schema_of(Bounded)["properties"]["count"]["minimum"] == 1
    assert schema_of(Fielded)["properties"]["count"]["description"] == "How many."
    assert schema_of(City)["properties"]["name"]["description"] == "In English."
    assert schema_of(Annotated[str, Meta(pattern="^a")])["pattern"] == "^a"
    assert schema_of(Annotated[str, WithJsonSchema({"type": "string", "format": "x"})])["format"] == "x"


def test_a_rule_that_no_schema_has_is_checked_before_the_call_and_its_words_reach_the_model() -> None:
    assert received(function_of(City), {"it": {"name": "oslo"}}) == (
        'The arguments of "take" do not fit its schema:\n'
        "- it.name: Value error, begin it with a capital letter\n"
        "Correct them and call it again."
    )
    assert "it is odd" in received(function_of(Annotated[int, AfterValidator(even)]), {"it": 3})
    assert "Predicate" in received(function_of(Annotated[int, at.Predicate(bool)]), {"it": 0})
    assert "- it: Invalid RFC3339" in received(function_of(date), {"it": "2026-13-45"})
    assert "- it.count" in received(function_of(Bounded), {"it": {"count": 0}})
    early = Annotated[date, at.Ge(date(2026, 1, 1))]
    assert "greater than or equal to 2026-01-01" in received(function_of(early), {"it": "2025-01-01"})
    local = Annotated[datetime, at.Timezone(None)]
    assert "timezone" in received(function_of(local), {"it": "2026-01-01T00:00:00Z"})


def test_a_call_with_such_arguments_never_begins() -> None:
    called: list[City] = []

    def visit(city: City) -> str:
        called.append(city)
        return f"in {city.name}"

    provider = ScriptedProvider(
        [
            calls(("visit", {"city": {"name": "oslo"}})),
            calls(("visit", {"city": {"name": "Oslo"}})),
            says("Done."),
        ]
    )
    with Chat("scripted/any", tools=[visit], providers={"scripted": provider}).blocking() as chat:
        chat.send("Go.")
        refused, ended = chat.chat.ledger.values()
    assert refused.result is not None
    assert "capital letter" in (refused.result.error or "")
    assert ended.result is not None
    assert ended.result.output == "in Oslo"
    assert called == [City(name="Oslo")]


def test_defaults_and_other_names_of_a_field_hold() -> None:
    def search(
        source: Annotated[str, Field(alias="from", description="Where it begins.")],
        limit: int = Field(default=3, ge=1),
        tags: Annotated[list[str], Field(default_factory=list)] = ...,  # type: ignore[assignment]
        unit: Annotated[Unit, Field()] = Unit.KM,
    ) -> Any:
        return source, limit, tags, unit

    search.__defaults__ = (search.__defaults__[0], Field(default_factory=list), Unit.KM)  # type: ignore[index]
    parameters = as_tool(search).spec.parameters
    assert parameters is not None
    assert parameters["required"] == ["from"]
    assert parameters["properties"]["limit"] == {"type": "integer", "minimum": 1, "default": 3}
    assert parameters["properties"]["from"] == {"type": "string", "description": "Where it begins."}
    assert received(search, {"from": "a"}) == ("a", 3, [], Unit.KM)
    assert received(search, {"from": "a", "limit": 5, "unit": "mi"}) == ("a", 5, [], Unit.MILES)
    assert "less than the minimum" in received(search, {"from": "a", "limit": 0})


class Opaque:
    """Nothing that anybody reads."""

    def __repr__(self) -> str:
        return "Opaque()"


class Mixed(Struct):
    city: City


class MetaInModel(BaseModel):
    count: Annotated[int, Meta(ge=1)]


class NotedTyped(TypedDict):
    city: Annotated[str, "In English."]


class BoundStruct(Struct):
    count: Annotated[int, at.Ge(1)]


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (Opaque, "Opaque"),
        (Annotated[int, Opaque()], "nobody reads"),
        (list[Annotated[int, 3]], "nobody reads"),
        (Annotated[str, Field(ge=1)], "ge bounds numbers"),
        (Annotated[str, at.Ge(1)], "ge"),
        (Mixed, "neither msgspec nor pydantic"),
        (MetaInModel, "MetaInModel.count"),
        (NotedTyped, "NotedTyped.city"),
        (BoundStruct, "BoundStruct"),
        (list[City | Area], "neither msgspec nor pydantic"),
        (Callable[[], int], "Callable"),
        (type[int], "a class is no value"),
        (Box[Annotated[int, Meta(ge=1)]], "Box"),
        (Annotated[int, at.Unit("m")], "nobody reads Unit"),
        (Annotated[int, Field(validation_alias="a", default_factory=lambda data: data["x"])], "depend"),
    ],
)
def test_what_cannot_be_told_is_refused_when_the_tool_is_made(annotation: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        as_tool(function_of(annotation))
    assert raised.value.path == "take.it"
    assert raised.value.code == "bad_tool_parameter"


def test_an_alias_may_stand_within_itself() -> None:
    assert received(function_of(Nested), {"it": [1, [2]]}) == [1, [2]]
    assert "it" in received(function_of(Nested), {"it": [1, ["x"]]})


@given(random_types)
def test_every_rule_of_a_type_is_told_and_checked_or_the_type_is_refused(drawn: RandomType) -> None:
    try:
        tool = as_tool(function_of(drawn.annotation))
    except UsageError:
        return
    schema = tool.spec.parameters
    assert schema is not None
    assert all(words in str(schema) for words in drawn.words)
    for value in drawn.good:
        assert problem_with(ToolCall("c", "take", {"it": value}), tool.spec, tool.check) == ""
    for value in drawn.bad:
        assert problem_with(ToolCall("c", "take", {"it": value}), tool.spec)


@pytest.mark.parametrize("tree", [ModelTree, StructTree, DataTree])
def test_a_description_beside_a_type_stays_at_its_place(tree: Any) -> None:
    for note in (Field(description="Of a town."), Meta(description="Of a town.")):
        noted = as_tool(function_of(Annotated[tree, note])).spec.parameters
        listed = as_tool(function_of(list[Annotated[tree, note]])).spec.parameters
        plain = as_tool(function_of(tree)).spec.parameters
        assert "Of a town." in str(noted)
        assert "Of a town." in str(listed)
        assert "Of a town." not in str(plain)


def test_two_types_of_one_name_keep_apart() -> None:
    def twins() -> tuple[Any, Any]:
        @dataclass
        class Point:
            latitude: float

        return Point, Point(1.5)

    other, value = twins()

    def both(here: Any, there: Any) -> Any:
        return here, there

    both.__annotations__ |= {"here": Point, "there": list[other]}  # type: ignore[valid-type]
    assert received(both, {"here": {"x": 1}, "there": [{"latitude": 1.5}]}) == (Point(1), [value])
    assert "latitude" in received(both, {"here": {"x": 1}, "there": [{"x": 1}]})


def test_pydantic_is_not_imported_for_types_that_do_not_need_it() -> None:
    program = """
import sys
from dataclasses import dataclass
from typing import Annotated, Literal
import annotated_types as at
from msgspec import Meta
from segue.tools import as_tool

@dataclass
class Point:
    x: Annotated[int, Meta(ge=1)]

def take(a: Annotated[int, at.Ge(1), "How many."], b: Point, c: list[Point] | None = None, d: Literal["x"] = "x"): ...

as_tool(take)
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603


def test_pydantic_may_be_there_without_its_parts() -> None:
    """Somebody imports a few of its names, and the package loads the rest when it is asked for."""
    program = """
import sys
import pydantic
assert "pydantic.fields" not in sys.modules
from segue.tools.function_tools import as_tool
def book(room: str, nights: int = 1) -> str: ...
as_tool(book)
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603
