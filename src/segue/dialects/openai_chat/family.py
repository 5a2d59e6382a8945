"""What the wires of the Chat family share in their requests: messages with roles, calls beside the content, a message for
each result. Chat itself, with all its servers, is one of them; Mistral's wire and Ollama's own are others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from msgspec import UNSET, Struct

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.conversation.message import Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.openai_chat.wire import AssistantMessage, Call, Function, SystemMessage, ToolMessage
from segue.dialects.requests.extra_fields import with_container
from segue.dialects.requests.function_tools import read_tools
from segue.dialects.requests.json_fields import items, record, text
from segue.dialects.requests.messages import (
    check_target,
    leading_messages,
    mark_beginnings,
    model_field,
    outcome_text,
    take_system,
)
from segue.dialects.requests.shapes import Fitting, Shape, fit_tools
from segue.transcript.blocks.foreign_fields import runs
from segue.transcript.fast import fast_paths
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, StepBlock, UserStep

if TYPE_CHECKING:
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_chat.rules import Variant
    from segue.transcript.steps import Transcript

SILENCE: Mapping[str, Any] = {"null": None, "empty": "", "omit": UNSET}
"""The content of a message that only calls."""


@final
class MessageReader(Struct, frozen=True, kw_only=True):
    """How the requests of one wire are read."""

    name: str
    message: Shape
    tools: Shape
    read_message: Callable[[dict[str, Any], str, Origin], Message]
    read_options: Callable[[Mapping[str, Any], list[Any]], Options]
    """`leading`: the messages that became the system prompt."""
    read_fast: Callable[[Any, Origin], Message | None] = lambda _item, _origin: None
    """Reads the messages of which most requests consist; None if it is another one."""
    read_tools: Callable[[Mapping[str, Any], str], Iterable[ToolSpec]] = read_tools

    def decode_request(self, body: Mapping[str, Any], fitting: Fitting | None = None) -> DecodedRequest:
        """A foreign body as it is. `fitting`: what was noted of it before."""
        name = self.name
        fitting = fitting or Fitting(name)
        origin = Origin(name, model=text(body.get("model"), "model"))
        fitted, messages = [*items(body.get("messages"), "messages")], []
        for index, item in enumerate(fitted):
            message = self.read_fast(item, origin)
            if message is None:
                path = f"messages[{index}]"
                fitted[index] = self.message.fit(record(item, path), path, fitting)
                message = self.read_message(fitted[index], path, origin)
            messages.append(message)
        messages = mark_beginnings(messages, name)
        system, rest = take_system("", messages)
        leading = fitted[: len(messages) - len(rest)]
        tools = fit_tools(self.tools, body.get("tools"), fitting)
        body = body if tools is body.get("tools") else {**body, "tools": tools}
        known = tools if body.get("functions") is None else None  # else they are not all that is offered
        return DecodedRequest(
            messages=rest,
            system=system,
            tools=read_once(known, name, lambda: self.read_tools(body, name)),
            options=self.read_options(body, leading),
            leading=len(leading),
            repairs=tuple(fitting.repairs),
        )


@final
class MessageWire(Struct, frozen=True, kw_only=True):
    """A wire that has a system message first and no instructions in mid-conversation."""

    reader: MessageReader
    title: str
    """For errors."""
    encode_settings: Callable[..., tuple[dict[str, Any], Sequence[Repair]]]
    encode_shown: Callable[[tuple[Text | Media, ...], int], Struct]
    encode_reply: Callable[[tuple[StepBlock, ...], int, list[Any]], None]
    write_fast: Callable[[tuple[StepBlock, ...], list[Any]], bool]

    def encode_request(
        self,
        transcript: Transcript,
        tools: tuple[ToolSpec, ...],
        options: Options,
        card: ModelCard,
        *,
        after: int = 0,
    ) -> EncodedRequest:
        check_target(transcript, self.reader.name, self.title)
        settings, repairs = self.encode_settings(transcript, tools, options, card)
        messages = [] if after else self._encode_system(transcript.system, options)
        before_reply = self._encode_steps(transcript, after, messages)
        body = {**model_field(transcript, options), "messages": messages, **settings}
        return EncodedRequest(body, tuple(repairs), before_reply)

    def _encode_system(self, system: str, options: Options) -> list[Any]:
        name, read = self.reader.name, self.reader.read_message
        head = leading_messages(
            options.own, name, system, lambda given: read(given, "messages", Origin(name)).text
        )
        return [*head] or ([SystemMessage(system)] if system else [])

    def _encode_steps(self, transcript: Transcript, after: int, messages: list[Any]) -> int:
        """Add the messages; how many there are before the last reply."""
        name, fast, before_reply = self.reader.name, fast_paths.enabled(), 0
        for index, step in enumerate(transcript.steps[after:], after):
            if type(step) is not UserStep:
                before_reply = len(messages)
                if not (fast and self.write_fast(step.blocks, messages)):
                    for run in runs(step.blocks, name):
                        self.encode_reply(run, index, messages)
            elif step.instruction:
                raise unencodable(self.title, "an instruction in mid-conversation", index)
            else:
                messages += [
                    with_container(self.encode_shown(shown, index), shown[0].extra, name)
                    for shown in runs(step.blocks, name)
                ]
        return before_reply


def new_writer(variant: Variant) -> Callable[[tuple[StepBlock, ...], list[Any]], bool] | None:
    """The fast path of requests (see transcript/fast): what writes the blocks of a reply, if they are a text and calls with
    their results. It returns whether that is what they are."""
    if variant.thoughts == "reasoning" or variant.details:
        return None
    dialect, silence = variant.name, SILENCE[variant.silence]
    names, thinks, cites = variant.result_names, variant.thoughts == "reasoning_content", variant.cites

    def write(blocks: tuple[StepBlock, ...], messages: list[Any]) -> bool:
        content: Any = UNSET
        thought: Any = UNSET
        calls: list[Call] = []
        results: list[ToolMessage] = []
        for block in blocks:
            if block.extra is not None and block.extra.dialect == dialect:
                return False
            if type(block) is AnsweredCall:
                done = block.completion
                if (
                    block.seal is not None
                    or done.media
                    or (done.extra is not None and done.extra.dialect == dialect)
                ):
                    return False
                calls.append(Call(block.id, Function(block.name, block.arguments)))
                results.append(ToolMessage(block.id, outcome_text(done), block.name if names else UNSET))
            elif type(block) is Text and content is UNSET and block.seal is None:
                if cites and block.citations:
                    return False
                content = block.text
            elif type(block) is Reasoning and thinks and thought is UNSET:
                thought = block.text
            else:
                return False
        if not calls:
            if content is UNSET:
                return False
            messages.append(AssistantMessage(content, thought))
            return True
        messages.append(AssistantMessage(content or silence, thought, UNSET, UNSET, calls))
        messages += results
        return True

    return write
