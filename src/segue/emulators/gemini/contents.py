"""The contents of a request after parsing: their parts, their order, none that says nothing, and calls against their
results (GEM-01 … GEM-17, GEM-40)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from segue.emulators.gemini.proto import DATA
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator


Body = Mapping[str, Any]


class Content(Struct, frozen=True):
    """One entry of `contents`. A missing role counts as the user's (GEM-01)."""

    index: int
    role: str
    parts: tuple[Body, ...]

    def having(self, field: str) -> tuple[tuple[int, Body], ...]:
        return tuple((place, part[field]) for place, part in enumerate(self.parts) if field in part)

    @property
    def calls(self) -> tuple[tuple[int, Body], ...]:
        return self.having("function_call")

    @property
    def responses(self) -> tuple[tuple[int, Body], ...]:
        return self.having("function_response")


def contents_of(body: Body) -> list[Content]:
    return [
        Content(index, content.get("role") or "user", tuple(content.get("parts", ())))
        for index, content in enumerate(body.get("contents", ()))
    ]


def declarations_of(body: Body) -> Iterator[tuple[str, Body]]:
    """Every function declaration with its path."""
    for place, tool in enumerate(body.get("tools", ())):
        for index, declaration in enumerate(tool.get("function_declarations", ())):
            yield f"tools[{place}].function_declarations[{index}]", declaration


def settings_of(body: Body) -> Body:
    found: Body = body.get("generation_config", {})
    return found


def calling_of(body: Body) -> Body:
    found: Body = body.get("tool_config", {}).get("function_calling_config", {})
    return found


def data_of(part: Body) -> list[str]:
    return [field for field in DATA if field in part]


def refused(rule: str, message: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(rule, message, type="INVALID_ARGUMENT", confidence=confidence)


REQUEST = "* GenerateContentRequest"
LEARN_MORE = "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
CALL_TURN = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
RESPONSE_TURN = "Please ensure that function response turn comes immediately after a function call turn."
RESPONSE_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts"
    " of the function call turn."
)
# Which of the two disagrees, the API does not tell.
BARE = "Request contains an invalid argument."


def complaints(body: Body, context: Context) -> Complaints:
    contents = contents_of(body)
    yield from no_contents(contents, body)
    yield from empty_contents(contents, context)
    yield from several_data(contents)
    yield from roles(contents)
    yield from single_turn(contents)
    yield from model_first(contents)
    yield from order(contents)
    yield from model_last(contents, context)
    yield from nameless(contents)
    yield from mismatched(contents)


@rule("GEM-10")
def no_contents(contents: list[Content], body: Body) -> Complaints:
    if not contents and not body.get("cached_content"):
        yield refused("GEM-10", f"{REQUEST}.contents: contents is not specified")


@rule("GEM-10")
def empty_contents(contents: list[Content], context: Context) -> Complaints:
    vertex = context.platform == "vertex"
    for content in contents:
        where = f"{REQUEST}.contents[{content.index}].parts"
        if not content.parts:
            text = (
                "Unable to submit request because it must include at least one parts field, which describes the"
                f" prompt input. {LEARN_MORE}"
                if vertex
                else f"{where}: contents.parts must not be empty."
            )
            yield refused("GEM-10", text)
        for place, part in enumerate(content.parts):
            # A part with nothing but its signature is an empty text that was left out: recorded as accepted.
            if not data_of(part) and "thought_signature" not in part:
                problem = "required oneof field 'data' must have one initialized field"
                yield refused("GEM-10", f"{where}[{place}].data: {problem}")
            # An empty text that carries a signature has to come back as it was (GEM-20).
            if vertex and part.get("text") == "" and "thought_signature" not in part:
                text = "Unable to submit request because it has an empty text parameter."
                yield refused("GEM-10", f"{text} Add a value to the parameter and try again. {LEARN_MORE}")


@rule("GEM-10", "M")
def several_data(contents: list[Content]) -> Complaints:
    for content in contents:
        for place, part in enumerate(content.parts):
            data = data_of(part)
            if len(data) > 1:
                where = f"contents[{content.index}].parts[{place}]"
                text = f"Invalid value at '{where}' (oneof), oneof field 'data' is already set. Cannot set '{data[1]}'"
                yield refused("GEM-10", text, "M")


@rule("GEM-01")
@rule("GEM-40")
def roles(contents: list[Content]) -> Complaints:
    """The rulebook is not sure of the words; recordings are. A system message is refused in the same (GEM-40)."""
    for content in contents:
        if content.role not in ("user", "model"):
            # `function` was the role of results in the first versions of the API.
            confidence: Confidence = "M" if content.role == "function" else "H"
            yield refused("GEM-01", "Please use a valid role: user, model.", confidence)


@rule("GEM-08", "M")
def single_turn(contents: list[Content]) -> Complaints:
    if len(contents) == 1 and contents[0].role == "model":
        text = "Please ensure that single turn requests end with a user role or the role field is empty."
        yield refused("GEM-08", text, "M")


@rule("GEM-09", "L")
def model_first(contents: list[Content]) -> Complaints:
    if len(contents) > 1 and contents[0].role == "model" and not contents[0].calls:
        text = "Please ensure that multiturn requests alternate between user and model"
        yield refused("GEM-09", text, "L")


@rule("GEM-02")
@rule("GEM-03")
@rule("GEM-04")
@rule("GEM-05")
@rule("GEM-12")
def order(contents: list[Content]) -> Complaints:
    """Calls follow the user or results; results follow calls, at once, all of them.

    Contents in a row that hold calls count as one turn, and so do those with results: what clients send split is answered.
    """
    before: _Turn | None = None
    for turn in _turns(contents):
        if turn.calls and (before is None or before.role == "model"):
            yield refused("GEM-02", CALL_TURN)
        elif turn.results and (before is None or not before.calls):
            yield refused("GEM-03", RESPONSE_TURN)
        elif before is not None and before.calls and before.calls != turn.results:
            yield refused("GEM-04", RESPONSE_COUNT)
        before = turn


class _Turn(NamedTuple):
    role: str
    calls: int
    results: int


def _turns(contents: list[Content]) -> Iterator[_Turn]:
    def kind(content: Content) -> tuple[str, bool, bool]:
        return content.role, bool(content.calls), bool(content.responses)

    for (role, calls, results), run in groupby(contents, key=kind):
        split = list(run)
        if calls or results:
            yield _Turn(role, sum(len(one.calls) for one in split), sum(len(one.responses) for one in split))
        else:
            yield from (_Turn(role, 0, 0) for _ in split)


@rule("GEM-07")
def model_last(contents: list[Content], context: Context) -> Complaints:
    if contents and contents[-1].role == "model" and context.facts.get("may_end_with_model") is False:
        yield refused("GEM-07", "Requests ending with a model turn are not supported.")


@rule("GEM-13")
def nameless(contents: list[Content]) -> Complaints:
    for content in contents:
        for field, found in (("function_call", content.calls), ("function_response", content.responses)):
            for place, value in found:
                if not value.get("name"):
                    where = f"contents[{content.index}].parts[{place}].{field}.name"
                    text = f"* GenerateContentRequest.{where}: Name cannot be empty."
                    yield refused("GEM-13", text)


@rule("GEM-13")
@rule("GEM-17", "M")
def mismatched(contents: list[Content]) -> Complaints:
    """Results name the calls they answer; ids repeat within a session, so only neighbours are compared."""
    for before, content in pairwise(contents):
        calls = [call for _, call in before.calls]
        responses = [response for _, response in content.responses]
        if not calls or len(calls) != len(responses):
            continue
        if Counter(call.get("name") for call in calls) != Counter(one.get("name") for one in responses):
            yield refused("GEM-13", BARE)
            continue
        known = {(call.get("id"), call.get("name")) for call in calls}
        if any(one.get("id") and (one["id"], one.get("name")) not in known for one in responses):
            yield refused("GEM-17", BARE, "M")
