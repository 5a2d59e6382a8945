"""Requests of the Interactions wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, structs

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.gemini_interactions import wire
from segue.dialects.gemini_interactions.citations import annotation_of, is_written
from segue.dialects.gemini_interactions.read_steps import read_steps, result_text, write_thought
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.gemini_interactions.settings import (
    decode_options,
    decode_tools,
    encode_settings,
    is_steps,
)
from segue.dialects.gemini_interactions.shapes import CONTENT, STEP, TOOLS
from segue.dialects.requests.extra_fields import as_fields, own, own_result, plain, with_container
from segue.dialects.requests.json_fields import items, text
from segue.dialects.requests.messages import check_target, take_system
from segue.dialects.requests.opaque_blocks import OpaqueBlockFilter, is_opaque, opaque_block
from segue.dialects.requests.shapes import UNFIT, Fitting, fit_tools
from segue.transcript.blocks.value_text import json_of
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.extra import Extra
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, Transcript

WIRE = "Gemini Interactions"


def encode_request(
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    *,
    after: int = 0,
) -> EncodedRequest:
    check_target(transcript, NAME, WIRE)
    settings, repairs = encode_settings(transcript, tools, options, card)
    given = settings.pop("input", None)
    steps = _Steps()
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is UserStep:
            if step.instruction:
                raise unencodable(WIRE, "an instruction in mid-conversation", index)
            steps.add_user(step)
        elif type(step) is ModelStep:
            steps.add_model(step)
    encoded: Any = steps.written
    if given is not None and len(encoded) == 1 and plain(encoded[0]) == _as_step(given):
        encoded = given  # in the shorter form that it came in
    settings["input"] = encoded
    return EncodedRequest(settings, tuple(repairs), steps.before_reply, steps.opaque.has_any)


def _as_step(given: Any) -> dict[str, Any] | None:
    """The step that an input in one of its shorter forms stands for; None if it is in none (INT-03)."""
    if isinstance(given, str):
        return {"type": "user_input", "content": [{"type": "text", "text": given}]}
    if is_steps(given):
        return None
    return {"type": "user_input", "content": given if isinstance(given, list) else [given]}


def steps_of(given: Any) -> list[Any]:
    """The steps that an input stands for, in whichever form it comes."""
    step = _as_step(given) if given is not None else None
    return [step] if step is not None else list(given) if isinstance(given, list) else []


class _Steps:
    """The steps so far."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.opaque = OpaqueBlockFilter()
        self.before_reply = 0
        """How many there are before the last reply."""
        self._said: list[Any] | None = None
        """Contents of the step that the next block may still belong to."""

    def add_user(self, step: UserStep) -> None:
        self._said = None
        for block in step.blocks:
            self._say(wire.UserInput, _content(block), block.extra, begins=self._said is None)
        self._said = None

    def add_model(self, step: ModelStep) -> None:
        self.before_reply = len(self.written)
        self._said = None
        results: list[Any] = []
        kept = self.opaque.select(step.blocks)
        for position, block in enumerate(step.blocks):
            extra = own(block.extra, NAME)
            if type(block) is Text:
                self._add_text(block, kept.get(position))
            elif type(block) is Media:
                self._say(wire.ModelOutput, _content(block), block.extra)
            elif type(block) is Reasoning:
                self._said = None
                seal = block.seal
                self.written.append(
                    write_thought(block.text, "")
                    if seal is None
                    else _thought(block, seal.payload, seal.kind, extra)
                )
            elif type(block) is AnsweredCall:
                self._said = None
                if block.seal is not None:  # INT-04: it stands before the call
                    self.written.append(write_thought("", block.seal.payload))
                self.written.append(_call(block, extra))
                results.append(_result(block))
        self.written += results
        self._said = None

    def _add_text(self, block: Text, kept: Raw | None) -> None:
        if kept is not None:
            if _is_content(kept):
                self._say(wire.ModelOutput, kept, block.extra)
            else:
                self._said = None
                self.written.append(kept)
            return
        if block.seal is not None and not is_opaque(block.seal.payload, block.seal.kind):
            self._said = None
            self.written.append(write_thought("", block.seal.payload))
            if not block.text:
                return
        self._say(wire.ModelOutput, _text(block), block.extra)

    def _say(
        self,
        kind: type[wire.UserInput | wire.ModelOutput],
        content: Any,
        came: Extra | None,
        *,
        begins: bool = True,
    ) -> None:
        """Of the model, what came in one step goes back in one; what came otherwise is a step each."""
        extra = own(came, NAME)
        joined = extra is not None and extra.container is None if begins else True
        if self._said is not None and joined:
            self._said.append(content)
            return
        self._said = [content]
        if content == {"type": "text", "text": ""} and extra is not None and extra.container is not None:
            self._said = []  # a step that came without content
        self.written.append(with_container(kind(self._said), extra, NAME))


def _is_content(kept: Raw) -> bool:
    return msgspec.json.decode(kept).get("type") in wire.CONTENTS


def _content(block: Text | Media) -> Any:
    extra = own(block.extra, NAME)
    if type(block) is Media:
        shown = wire.media_content(block)
        return shown if extra is None else extra.written(as_fields(shown))
    kept = opaque_block(block)
    return _text(block) if kept is None else kept


def _text(block: Text) -> dict[str, Any]:
    extra = own(block.extra, NAME)
    said: dict[str, Any] = {"type": "text", "text": block.text}
    if extra is not None:
        return extra.written(said)
    cited = [annotation_of(one, block.text) for one in block.citations if is_written(one)]
    return {**said, "annotations": cited} if cited else said


def _thought(block: Reasoning, payload: str, kind: str, extra: Extra | None) -> Any:
    if is_opaque(payload, kind):
        return Raw(payload)  # one without a signature
    step = write_thought(block.text, payload)
    return step if extra is None else extra.written(as_fields(step))


def _call(call: AnsweredCall, extra: Extra | None) -> Any:
    step = wire.FunctionCall(call.id, call.name, Raw(call.arguments))
    return step if extra is None else extra.written(as_fields(step))


def _result(call: AnsweredCall) -> Any:
    done = call.completion
    step = wire.FunctionResult(call.id, call.name, _result_value(done), done.is_error)
    extra = own(done.extra, NAME)
    if extra is None:
        return step
    came = extra.form.get("result")
    if isinstance(came, dict) and json_of(came) != done.text:  # what is kept is of another result
        form = {name: value for name, value in extra.form.items() if name != "result"}
        extra = structs.replace(extra, form=form)
    shown = [as_fields(wire.media_content(media)) for media in done.media]
    return own_result(step, done.text, extra, result_text, shown, "result")


def _result_value(done: Completion) -> Any:
    if not done.media:
        return done.text
    said: list[Any] = [wire.TextContent(done.text)] if done.text else []
    return said + [wire.media_content(media) for media in done.media]


# The other way

_OWN_FIELDS = frozenset(
    {"previous_interaction_id", "generation_config", "system_instruction", "agent", "agent_config"}
    | {"response_modalities", "continuation_token", "webhook_config"}
)
_STEPS = frozenset({"user_input", "model_output", "thought", "function_result"})


def recognises(body: Mapping[str, Any]) -> float:
    """Only this wire has steps, and only Google's wires have these fields."""
    given = body.get("input")
    if "messages" in body or "contents" in body or (given is None and "agent" not in body):
        return 0.0
    listed = given if isinstance(given, list) else []
    if any(wire.kind_of(item) in _STEPS for item in listed):
        return 1.0
    if _OWN_FIELDS & body.keys():
        return 1.0
    model = body.get("model")
    return 0.6 if isinstance(model, str) and model.startswith("gemini-") else 0.0


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    fitting = Fitting(NAME)
    given = body.get("input")
    short = _as_step(_fitted_contents(given, fitting)) if not is_steps(given) else None
    came = [short] if short is not None else items(given if given is not None else [], "input")
    listed = [_fitted(step, f"input[{index}]", fitting) for index, step in enumerate(came)]
    if short is not None and not isinstance(given, str):
        body = {**body, "input": short["content"] if isinstance(given, list) else short["content"][0]}
    tools = fit_tools(TOOLS, body.get("tools"), fitting)
    body = body if tools is body.get("tools") else {**body, "tools": tools}
    options = decode_options(body)
    messages, starts = read_steps(listed, Origin(NAME, model=options.model))
    system, rest = take_system(text(body.get("system_instruction"), "system_instruction"), messages)
    return DecodedRequest(
        messages=rest,
        system=system,
        tools=read_once(tools, NAME, lambda: decode_tools(tools)),
        options=options,
        starts=tuple(starts),
        repairs=tuple(fitting.repairs),
        is_linked=short is not None,
    )


def _fitted(step: Any, path: str, fitting: Fitting) -> Any:
    """A step as the wire takes it. One that does not fit is left to its reader, which names what is wrong."""
    fitted = STEP.fit(step, path, fitting)
    return step if fitted is UNFIT else fitted


def _fitted_contents(given: Any, fitting: Fitting) -> Any:
    if not isinstance(given, list):
        return given
    fitted = [CONTENT.fit(part, f"input[{index}]", fitting) for index, part in enumerate(given)]
    return [part if found is UNFIT else found for part, found in zip(given, fitted, strict=True)]
