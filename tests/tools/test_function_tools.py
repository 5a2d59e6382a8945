"""Functions become tools: what the model is told, what the function is given, what comes back."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from segue.conversation.blocks import Media, ToolCall
from segue.conversation.json_safe import is_json_safe
from segue.errors import UsageError
from segue.tools.arguments import problem_with
from segue.tools.definition import Context, Output, Tool
from segue.tools.execution import output_of
from segue.tools.function_tools import as_tool, tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8


class Unit(Enum):
    KM = "km"
    MILES = "mi"


@dataclass
class Place:
    name: str
    tags: list[str]


class Filter(Struct):
    limit: int = 5


class Extra(TypedDict):
    note: str
    stars: NotRequired[int]


class Opaque:
    """Nothing JSON knows of."""


def context(told: list[str] | None = None) -> Context:
    said = [] if told is None else told
    return Context(call=ToolCall("c1", "t"), abort=asyncio.Event(), progress=said.append)


def run(made: Tool, arguments: dict[str, Any], told: list[str] | None = None) -> Output:
    async def main() -> Any:
        value = await made.run(arguments, context(told))
        await asyncio.sleep(0)
        return value

    return output_of(asyncio.run(main()))


def everything(
    text: str,
    count: Annotated[int, Meta(ge=1, description="How many.")],
    size: Literal["small", "large"],
    unit: Unit = Unit.KM,
    place: Place | None = None,
    *,
    filter: Filter = Filter(limit=7),  # noqa: A002, B008
    extra: Extra | None = None,
    days: list[date] = [],  # noqa: B006
) -> dict[str, Any]:
    """Look at everything.

    It takes long.

    Args:
        text: What to look for.
        count: Never told, as the annotation says it.
        place: Where,
            in two lines.

    Returns:
        What was found.
    """
    return {
        "text": text,
        "kinds": [type(value).__name__ for value in (unit, place, filter, extra)],
        "days": days,
    }


def test_the_schema_comes_from_the_annotations_and_the_docstring() -> None:
    spec = as_tool(everything).spec
    assert spec.name == "everything"
    assert spec.description == "Look at everything.\n\nIt takes long.\n\nReturns: What was found."
    assert spec.parameters is not None
    properties = spec.parameters["properties"]
    assert spec.parameters["required"] == ["text", "count", "size"]
    assert spec.parameters["additionalProperties"] is False
    assert properties["text"] == {"type": "string", "description": "What to look for."}
    assert properties["count"] == {"type": "integer", "minimum": 1, "description": "How many."}
    assert properties["size"] == {"enum": ["large", "small"]}
    assert properties["unit"]["default"] == "km"
    assert properties["filter"]["default"] == {"limit": 7}
    assert properties["days"]["default"] == []
    assert "default" not in properties["place"]
    assert properties["place"]["description"] == "Where, in two lines."
    assert set(spec.parameters["$defs"]) == {"Unit", "Place", "Filter", "Extra"}


def test_arguments_arrive_as_the_annotated_types() -> None:
    made = as_tool(everything)
    arguments = {
        "text": "x",
        "count": 1,
        "size": "small",
        "unit": "mi",
        "place": {"name": "Ulm", "tags": []},
        "filter": {"limit": 1},
        "extra": {"note": "n"},
        "days": ["2026-01-02"],
    }
    assert problem_with(ToolCall("c", "everything", arguments), made.spec) == ""
    assert run(made, arguments).value == {
        "text": "x",
        "kinds": ["Unit", "Place", "Filter", "dict"],
        "days": ["2026-01-02"],
    }


def test_what_is_not_given_keeps_the_default_of_the_function() -> None:
    output = run(as_tool(everything), {"text": "x", "count": 1, "size": "small"})
    assert output.value == {"text": "x", "kinds": ["Unit", "NoneType", "Filter", "NoneType"], "days": []}


def test_whole_numbers_may_be_written_with_a_point_and_texts_stay_texts() -> None:
    def told(count: int, numbers: list[int], either: int | str) -> list[Any]:
        return [count, numbers, either]

    made = as_tool(told)
    arguments = {"count": 5.0, "numbers": [1.0, 2], "either": "7"}
    assert problem_with(ToolCall("c", "told", arguments), made.spec) == ""
    assert repr(run(made, arguments).value) == "[5, [1, 2], '7']"


def google(city: str) -> None:
    """Tell the weather.

    Args:
        city: Where.
    """


def numpy(city: str) -> None:
    """Tell the weather.

    Parameters
    ----------
    city : str
        Where.
    """


def sphinx(city: str) -> None:
    """Tell the weather.

    :param city: Where.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_every_style_of_docstring_is_read_alike(function: Callable[..., None]) -> None:
    spec = as_tool(function).spec
    assert spec.description == "Tell the weather."
    assert spec.parameters is not None
    assert spec.parameters["properties"]["city"]["description"] == "Where."


def test_the_decorator_says_what_the_signature_cannot_and_leaves_the_function_as_it_is() -> None:
    @tool(
        name="other-name",
        description="Told.",
        effect="edit",
        timeout=3,
        writes=lambda given: (given["path"],),
    )
    def write(path: str) -> str:
        """Not told."""
        return path

    @tool
    def bare(path: str) -> str:
        return path

    made = as_tool(write)
    assert (made.name, made.spec.description, made.effect, made.timeout) == ("other-name", "Told.", "edit", 3)
    assert made.writes is not None
    assert made.writes({"path": "a"}) == ("a",)
    assert write("still a function") == "still a function"
    assert as_tool(bare).name == "bare"
    assert as_tool(made) is made


def bad_annotation(fine: int, opaque: Opaque) -> None: ...
def bad_union(either: list[Place | Filter]) -> None: ...
def bad_star(*many: int) -> None: ...
def bad_stars(**named: int) -> None: ...
def bad_slash(first: int, /) -> None: ...
def bad_name(first: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (bad_annotation, "bad_annotation.opaque"),
        (bad_union, "bad_union.either"),
        (bad_star, "bad_star.many"),
        (bad_stars, "bad_stars.named"),
        (bad_slash, "bad_slash.first"),
        (bad_name, "Missing"),
        (lambda: None, "<lambda>"),
        (3, "3"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_the_name_of_the_parameter(function: Any, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        as_tool(function)
    assert named in str(raised.value)
    assert raised.value.hint


def test_methods_partials_and_callable_objects_are_tools_too() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        @tool
        def add(self, by: int) -> int:
            self.count += by
            return self.count

        async def __call__(self, by: int) -> int:
            return self.count + by

    counter = Counter()
    assert run(as_tool(counter.add), {"by": 3}).value == 3
    assert run(as_tool(counter), {"by": 3}).value == 6
    partial = functools.partial(everything, "fixed")
    tool(name="half")(partial)
    assert as_tool(partial).spec.parameters is not None


def test_a_context_is_given_by_the_runtime_and_never_told_to_the_model() -> None:
    async def slow(steps: int, around: Context) -> str:
        for step in range(steps):
            around.progress(f"step {step}")
        return around.call.id

    def quick(around: Context | None, steps: int) -> str:
        assert around is not None
        around.progress("in a thread")
        return around.call.id

    told: list[str] = []
    spec = as_tool(slow).spec
    assert spec.parameters is not None
    assert list(spec.parameters["properties"]) == ["steps"]
    assert run(as_tool(slow), {"steps": 2}, told).value == "c1"
    assert run(as_tool(quick), {"steps": 2}, told).value == "c1"
    assert told == ["step 0", "step 1", "in a thread"]


def test_synchronous_tools_run_beside_the_loop_all_at_once_with_their_context_variables() -> None:
    whose = contextvars.ContextVar("whose", default="nobody")
    together = threading.Barrier(40, timeout=5)

    def wait(number: int) -> str:
        together.wait()
        return f"{whose.get()} {number}"

    async def main() -> list[str]:
        whose.set("me")
        made = as_tool(wait)
        return await asyncio.gather(*(made.run({"number": n}, context()) for n in range(40)))

    assert asyncio.run(main()) == [f"me {n}" for n in range(40)]


def test_a_cancelled_synchronous_tool_holds_nothing_up() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(30)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(as_tool(stuck).run({}, context()), 0.05)

    began = time.monotonic()
    asyncio.run(main())
    release.set()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), SystemExit(3), KeyboardInterrupt()])
def test_what_a_synchronous_tool_raises_is_raised_and_ends_nothing_else(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(Exception, match=r"no|StopIteration|SystemExit|KeyboardInterrupt"):
        run(as_tool(fail), {})


def test_results_of_every_kind_become_values_and_media() -> None:
    media = Media("image", "image/png", "AAAA")
    assert output_of("text") == Output("text")
    assert output_of(None) == Output()
    assert output_of({"a": [1, None, True]}) == Output({"a": [1, None, True]})
    assert output_of(Place("Ulm", ["x"])) == Output({"name": "Ulm", "tags": ["x"]})
    assert output_of(Filter()) == Output({"limit": 5})
    assert output_of(media) == Output(media=(media,))
    assert output_of(["two", "texts", media]) == Output(["two", "texts"], (media,))
    assert output_of(["one", media]) == Output("one", (media,))
    assert output_of(Output("said", (media,), "failed")) == Output("said", (media,), "failed")
    assert output_of(b"plain text") == Output("plain text")
    assert output_of(b"\xff\x00") == Output({"base64": "/wA="})
    (picture,) = output_of(PNG).media
    assert (picture.kind, picture.mime, b64decode(picture.data)) == ("image", "image/png", PNG)
    assert output_of(b"\xff\xd8\xff\xe0").media[0].mime == "image/jpeg"
    assert output_of(b"%PDF-1.7").media[0].kind == "document"


def test_a_result_that_holds_itself_is_cut() -> None:
    circle: dict[str, Any] = {"nan": float("nan"), "text": "\ud800", "bytes": b"\xff"}
    circle["self"] = circle
    output = output_of(Output(circle, error="\udc00"))
    assert is_json_safe(output.value)
    assert output.value["self"] == "(circular)"
    assert is_json_safe(output.error)


_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=9) | st.text(st.characters())
)


@given(
    st.recursive(_leaves, lambda inner: st.lists(inner) | st.dictionaries(_leaves, inner) | st.tuples(inner))
)
def test_whatever_a_tool_returns_can_be_told(value: Any) -> None:
    output = output_of(value)
    assert is_json_safe(output.value)
