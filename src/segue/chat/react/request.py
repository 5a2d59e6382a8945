"""A request retold for a model that knows no tools: its calls and results become ReAct text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from segue.chat.react.parser import FORMAT
from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.conversation.message import Conversation, Message
from segue.conversation.tools import Named
from segue.transcript.render import render
from segue.transcript.rules import MediaRules, ReasoningRules, Rules
from segue.transcript.steps import AnsweredCall, UserStep
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segue.conversation.options import Options
    from segue.conversation.tools import ToolChoice, ToolSpec
    from segue.providers.adapter import ChatRequest
    from segue.transcript.steps import Completion, ModelStep, Step

STOP: Final = "\nObservation:"
"""Where a model must stop, so that it does not make up what its tool answers."""

_ANY = frozenset({"image/*", "audio/*", "video/*", "application/*", "text/*"})
_RULES = Rules(
    media=MediaRules(_ANY, _ANY, _ANY, frozenset({"image", "document", "audio"})),
    reasoning=ReasoningRules(replay="plain"),
    instructions="inline",
)
"""Nothing but pairing is settled here: what the target itself demands is left to its own render."""


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


def format_observation(result: Any) -> str:
    """A tool's result as the model reads it."""
    return f"Observation: {json_of(result)}"


def to_react(request: ChatRequest) -> ChatRequest:
    """The same request with tools told in the system prompt and calls told as text; the given one is untouched."""
    conversation, options = request.conversation, request.options
    system, stop = conversation.system, options.stop
    if request.tools and options.tool_choice != "none":
        told = [system] if system else []
        told += [format_tools(request.tools), *_demands(options)]
        system, stop = "\n\n".join(told), (*stop, STOP)
        options = structs.replace(options, response_schema=None)
    messages = _retold(request) if conversation.messages else ()
    return structs.replace(
        request,
        conversation=Conversation(tuple(messages), system, conversation.minted),
        ledger=None,
        tools=(),
        options=structs.replace(options, tool_choice=None, parallel_calls=None, stop=stop),
        policy=structs.replace(request.policy, tool_names=()),
    )


def _demands(options: Options) -> Iterator[str]:
    choice: ToolChoice | None = options.tool_choice
    if choice == "required":
        yield "You must use a tool before you give a final answer."
    elif isinstance(choice, Named):
        yield f"You must use the tool {choice.name} before you give a final answer."
    if options.response_schema is not None:
        yield f"The final answer must be JSON that follows this schema: {json_of(options.response_schema)}"


def _retold(request: ChatRequest) -> Iterator[Message]:
    conversation = request.conversation
    target = _own(conversation, request.model)
    transcript = render(conversation, request.ledger, structs.replace(_RULES, target=target), request.policy)
    names = {spoken: name for name, spoken in transcript.names.items()}
    for step in transcript.steps:
        yield from _told(step, names)


def _own(conversation: Conversation, model: str) -> Origin:
    """Who the model is by its own earlier messages: what it thought there may be told to it again."""
    origins = (message.origin for message in reversed(conversation.messages))
    return next((origin for origin in origins if origin and origin.model == model), Origin(model=model))


def _told(step: Step, names: dict[str, str]) -> Iterator[Message]:
    if type(step) is UserStep:
        yield Message("user", step.blocks, instruction=step.instruction)
        return
    yield from _model_told(step, names)


def _model_told(step: ModelStep, names: dict[str, str]) -> Iterator[Message]:
    before: list[str] = []
    media: list[Media] = []
    thoughts: list[str] = []
    for block in step.blocks:
        if type(block) is AnsweredCall:
            action = f"Action: {names.get(block.name, block.name)}\nAction Input: {block.arguments}"
            said = [_labelled("Thought", (*thoughts, *before)), action]
            yield Message("model", (*media, _text(said)))
            yield _observed(block.completion)
            before, media, thoughts = [], [], []
        elif type(block) is Reasoning:
            thoughts.append(block.text)
        elif type(block) is Media:
            media.append(block)
        elif type(block) is Text:
            before.append(block.text)
    if before or media or thoughts:
        said = [_labelled("Thought", thoughts), _labelled("Final Answer", before)]
        yield Message("model", (*media, _text(said)))


def _labelled(label: str, texts: Iterable[str]) -> str:
    told = "\n".join(text for text in texts if text.strip())
    return f"{label}: {told}" if told else ""


def _text(paragraphs: Iterable[str]) -> Text:
    return Text("\n".join(paragraph for paragraph in paragraphs if paragraph))


def _observed(done: Completion) -> Message:
    result: Any = {"error": done.text} if done.is_error or done.reason is not None else _as_json(done.text)
    return Message("user", (Text(format_observation(result)), *done.media))


def _as_json(text: str) -> Any:
    """What a tool answered in JSON stays JSON; any other text becomes a JSON string."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            pass
    return text
