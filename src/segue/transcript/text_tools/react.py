"""ReAct: a thought, then an action with its input, or the final answer, each in a line with a keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.transcript.text_tools.form import Form
from segue.transcript.text_tools.json_calls import list_tools
from segue.transcript.text_tools.react_scanner import ReActScanner
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.conversation.tools import ToolSpec
    from segue.transcript.steps import AnsweredCall, Completion
    from segue.transcript.text_tools.form import Offer, ParsedReply

MAX_CORRECTIONS = 3
"""How often in one turn a model may be asked to write its action properly."""
_QUOTED = 500
FORMAT = """\
Thought: [your reasoning about what to do]
Action: [name of one tool]
Action Input: [one JSON object with its parameters]

or, when no tool is needed any more:

Final Answer: [your response to the user]"""


def correction(parsed: ParsedReply) -> str:
    """A note that asks the model to correct its reply and quotes it."""
    quoted = parsed.raw_input if len(parsed.raw_input) <= _QUOTED else parsed.raw_input[:_QUOTED] + "…"
    match parsed.problem:
        case "bad_json":
            what = f"Error: Action Input must be valid JSON, and this is not:\n{quoted}\n"
        case "not_an_object":
            what = f"Error: Action Input must be a JSON object, and this is none:\n{quoted}\n"
        case "no_action_name":
            what = "Error: The line Action must name one tool.\n"
        case "cut_off":
            what = "Error: Your reply was cut off before its action was complete.\n"
        case _:
            what = "Error: Your reply had neither an action nor a final answer.\n"
    return what + "Please try again in this exact format:\n\n" + FORMAT


def format_tools(tools: Sequence[ToolSpec]) -> str:
    """Instructions that name every tool, what it does and what it takes."""
    listed = "\n".join(
        f"- {tool.name}: {tool.description or 'No description'}\n  Parameters: {json_of(tool.parameters or {})}"
        for tool in tools
    )
    return f"""\
You have access to the following tools:

{listed}

To use a tool, respond in this exact format, and stop after it:

{FORMAT}

After each action you will see its result:

Observation: [result of the tool]

Never write an observation yourself. Use one tool at a time; you may use as many, one after another, as you need."""


def _instructions(offer: Offer) -> str:
    paragraphs = [format_tools(offer.tools)]
    if offer.must_call:
        tool = f"the tool {offer.named}" if offer.named else "a tool"
        paragraphs.append(f"You must use {tool} before you give a final answer.")
    if offer.answer is not None:
        paragraphs.append(f"The final answer must be JSON that follows this schema: {json_of(offer.answer)}")
    return "\n\n".join(paragraphs)


def _short_instructions(offer: Offer) -> str:
    ending = (
        "\n\nOnce you know enough, or when no tool helps, end with\n"
        "Thought: I can answer now\nFinal Answer: the answer in plain words"
    )
    return (
        f"# Tools\n\nYou can use these tools:\n{list_tools(offer.tools)}\n\n"
        "Use a tool whenever one can do or find out what the user asks for. To use one, write\n"
        "Thought: what has to be done next\nAction: the name of the tool\n"
        "Action Input: its arguments as a JSON object\n"
        f"and the result is told to you as an Observation.{'' if offer.must_call else ending}"
    )


def _write_reply(thoughts: Sequence[str], texts: Sequence[str], calls: Sequence[AnsweredCall]) -> str:
    if calls:
        actions = [f"Action: {call.name}\nAction Input: {call.arguments}" for call in calls]
        return _lines([_labelled("Thought", (*thoughts, *texts)), *actions])
    # Labelled as an answer, an action that could not be read would teach the wrong format.
    malformed = any(text.startswith("Action: ") and "\nAction Input: " in text for text in texts)
    return _lines(
        [_labelled("Thought", thoughts), *(texts if malformed else [_labelled("Final Answer", texts)])]
    )


def _labelled(label: str, texts: Iterable[str]) -> str:
    text = _lines(texts)
    return f"{label}: {text}" if text else ""


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def format_observation(result: Any) -> str:
    """A tool's result as the model reads it."""
    return f"Observation: {json_of(result)}"


def _write_observations(calls: Sequence[AnsweredCall]) -> str:
    return "\n".join(format_observation(_result(call.completion)) for call in calls)


def _result(completion: Completion) -> Any:
    """What a tool answered in JSON stays JSON; any other text becomes a JSON string."""
    text = completion.text
    if completion.is_error or completion.reason is not None:
        return {"error": text}
    if text.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            pass
    return text


def _write_plain_observations(calls: Sequence[AnsweredCall]) -> str:
    return "\n".join(f"Observation: {call.completion.text}" for call in calls)


REACT = Form(
    instructions=_instructions,
    write_reply=_write_reply,
    write_results=_write_observations,
    new_scanner=ReActScanner,
    writes_thoughts=True,
    single_calls=True,
    stop=("\nObservation:",),
)
SHORT_REACT = Form(
    instructions=_short_instructions,
    write_reply=_write_reply,
    write_results=_write_plain_observations,
    new_scanner=ReActScanner,
    writes_thoughts=True,
)
"""For replies that a grammar holds to the format: fewer words explain it."""
