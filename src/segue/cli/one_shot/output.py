"""The outputs of a one-shot: text for people and pipes, or JSON for scripts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any, Protocol, final

import msgspec
from msgspec import structs

from segue.chat.output_type import ANSWER_CORRECTED
from segue.cli.display.status_lines import event_line
from segue.cli.display.terminal import Colours, print_status
from segue.cli.display.turn_summary import summary_line
from segue.cli.one_shot import json_output
from segue.conversation.blocks import Text, status_of
from segue.events import (
    Citations,
    Compaction,
    Error,
    ReasoningChunk,
    Retrying,
    Switch,
    TextChunk,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
    Warned,
)
from segue.text.terminal_text import ControlSequence, Sanitiser, safe_json
from segue.transcript.blocks.citations import source_list

if TYPE_CHECKING:
    import argparse

    from segue.cli.display.markdown import MarkdownStream
    from segue.cli.runtime import Runtime
    from segue.conversation.blocks import Block
    from segue.events import ChatEvent


_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A block of code in Markdown. One that was cut off reaches to the end."""


class TurnOutput(Protocol):
    """Handles the events of one run, and its end."""

    def handle(self, event: ChatEvent) -> None: ...

    def end(self, result: json_output.ResultEvent) -> None: ...


def make_output(arguments: argparse.Namespace, runtime: Runtime) -> TurnOutput:
    """The output that --output-format names."""
    match arguments.output_format:
        case "json":
            return JsonOutput()
        case "stream-json":
            return JsonLinesOutput(partial=arguments.include_partial_messages)
        case _:
            return TextOutput(arguments, runtime)


@final
class JsonOutput:
    """`--output-format json`: the result and nothing else."""

    def __init__(self) -> None:
        self._sources: list[json_output.SourceInfo] = []

    def handle(self, event: ChatEvent) -> None:
        if type(event) is ToolCallStart:  # what came before a call is not part of the answer
            self._sources = []
        elif type(event) is Citations:
            self._sources = json_output.source_infos(event.citations)

    def end(self, result: json_output.ResultEvent) -> None:
        _write_line(structs.replace(result, citations=self._sources))


@final
class JsonLinesOutput:
    """`--output-format stream-json`: one JSON object per line, as it happens."""

    def __init__(self, *, partial: bool) -> None:
        self._partial = partial
        self._sources: list[json_output.SourceInfo] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []

    def begin(self, init: json_output.InitEvent) -> None:
        _write_line(init)

    def prompt(self, prompt: tuple[Block, ...]) -> None:
        # What the user wrote; attachments are not part of it.
        text = next((block.text for block in prompt if type(block) is Text), "")
        _write_line(json_output.MessageEvent(role="user", content=text))

    def handle(self, event: ChatEvent) -> None:
        match event:
            case TextChunk(text):
                self._text.append(text)
                if self._partial:
                    _write_line(json_output.MessageEvent(role="assistant", content=text, delta=True))
            case ReasoningChunk(text):
                self._reasoning.append(text)
                if self._partial:
                    _write_line(
                        json_output.MessageEvent(role="assistant", content="", reasoning=text, delta=True)
                    )
            case ToolCallChunk(index, name, arguments):
                if self._partial:
                    _write_line(
                        json_output.ToolUseDeltaEvent(index=index, tool_name=name, partial_json=arguments)
                    )
            case Citations(citations):
                self._sources = json_output.source_infos(citations)
            case ToolCallStart(call):
                self._write_message()
                _write_line(
                    json_output.ToolUseEvent(tool_id=call.id, tool_name=call.name, parameters=call.arguments)
                )
            case ToolCallResult(call, result):
                _write_line(_tool_result(call.name, result))
            case TurnComplete():
                self._write_message(event.model)
            case _:
                self._handle_trouble(event)

    def _handle_trouble(self, event: ChatEvent) -> None:
        match event:
            case Switch(previous, model, reason, losses, error):
                _write_line(
                    json_output.SwitchEvent(
                        previous=previous,
                        model=model,
                        reason=reason,
                        losses=[str(repair) for repair in losses],
                        error=None if error is None else json_output.error_info(error),
                    )
                )
            case Retrying(_, error):
                _write_line(json_output.ErrorEvent(severity="warning", error=json_output.error_info(error)))
            case Warned(message, code):
                if code == ANSWER_CORRECTED:
                    self._write_message()
                _write_warning(code or "warning", message)
            case Compaction():
                _write_warning("compacted", event_line(event))
            case Error(error):
                self._write_message()
                _write_line(json_output.ErrorEvent(severity="error", error=json_output.error_info(error)))
            case _:
                pass

    def _write_message(self, model: str = "") -> None:
        """What has arrived so far, as one message."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        self._text, self._reasoning = [], []
        if text or reasoning:
            _write_line(
                json_output.MessageEvent(role="assistant", content=text, reasoning=reasoning, model=model)
            )
        if self._sources:
            _write_line(json_output.CitationsEvent(citations=self._sources))
            self._sources = []

    def end(self, result: json_output.ResultEvent) -> None:
        self._write_message()
        _write_line(result)


def _write_warning(code: str, message: str) -> None:
    error = json_output.ErrorInfo(code=code, message=message)
    _write_line(json_output.ErrorEvent(severity="warning", error=error))


def _tool_result(name: str, result: Any) -> json_output.ToolResultEvent:
    status = {"complete": "success", "pending": "success"}.get(status_of(result), status_of(result))
    return json_output.ToolResultEvent(
        tool_id=result.call_id,
        tool_name=name,
        status="cancelled" if status == "cancelled" else "error" if status == "error" else "success",
        output=result.output,
        error=result.error or (result.reason or ""),
    )


def _write_line(value: json_output.OutputEvent) -> None:
    line = msgspec.json.encode(value, enc_hook=str).decode()
    sys.stdout.write(safe_json(line) + "\n")
    sys.stdout.flush()


@final
class TextOutput:
    """For people and pipes: the answer on stdout, everything else on stderr.

    With tools, text before a call is not part of the answer, nor is one that does not match the schema: in a pipe it is
    held back until it is known what follows, and then goes to stderr.
    """

    def __init__(self, arguments: argparse.Namespace, runtime: Runtime) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        ui, on_terminal = runtime.config.ui, sys.stdout.isatty()
        self._extracts = arguments.extract
        self._holds = self._extracts or (bool(runtime.tools or arguments.schema) and not on_terminal)
        self._structured = bool(arguments.schema)
        self._quiet = arguments.quiet
        to_user = sys.stderr.isatty() and not self._quiet
        self._shows_reasoning = to_user and ui.reasoning and not arguments.hide_reasoning
        self._shows_status = (to_user and ui.status) or arguments.usage
        self._paint = Colours(sys.stderr)
        self._raw = arguments.raw_output
        self._answer, self._thoughts = Sanitiser(), Sanitiser()
        renders = on_terminal and ui.markdown and not arguments.plain and not self._raw
        self._markdown = _markdown() if renders else None
        self._held: list[str] = []
        self._open_line = False
        """The last line on stdout has not ended."""
        self._thinking = False
        self._denied: dict[str, None] = {}
        """Tools that needed an approval which nobody could give, in order."""

    def handle(self, event: ChatEvent) -> None:
        if type(event) is ToolCallResult and event.result.reason == "denied":
            self._denied[event.call.name] = None
        match event:
            case TextChunk(text):
                self._stop_thinking()
                self._write_answer(ControlSequence(text) if self._raw else self._answer.feed(text))
            case ReasoningChunk(text):
                if self._shows_reasoning and (shown := self._thoughts.feed(text)):
                    self._end_line()
                    self._thinking = True
                    sys.stderr.write(self._paint("dim", shown))
                    sys.stderr.flush()
            case Citations(citations) if not (self._structured or self._extracts):
                words = source_list(citations)
                self._write_answer("\n\n" + (words if self._raw else self._answer.feed(words)))
            case _:
                # A call, or an answer that the model is asked to correct: what was held is not the answer.
                rejected = type(event) is Warned and event.code == ANSWER_CORRECTED
                if self._held and (rejected or type(event) is ToolCallStart):
                    self._drop_held()
                if line := "" if self._quiet else event_line(event):
                    self._stop_thinking()
                    self._end_line()
                    print_status(line, "dim")

    def end(self, result: json_output.ResultEvent) -> None:
        self._stop_thinking()
        if self._held:
            held, self._held, self._holds = self._held, [], False
            answer = "".join(held)
            self._write_answer(first_code_block(answer) if self._extracts else answer)
        self._end_line()
        if self._shows_status and result.error is None:
            cost, repairs = result.total_cost_usd, result.repairs
            print_status(summary_line(result.model, result.usage, cost=cost, repairs=repairs), "dim")
        if self._denied and not self._quiet:
            names = ",".join(self._denied)
            print_status(
                f"These tools need your approval. Allow them: --allowed-tools {shlex.quote(names)}", "dim"
            )
            self._denied = {}

    def _write_answer(self, text: str) -> None:
        if not text:
            return
        if self._holds:
            self._held.append(text)
        elif self._markdown is not None:
            self._markdown.feed(text)
            self._open_line = True
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open_line = not text.endswith("\n")

    def _drop_held(self) -> None:
        if not self._quiet:
            print_status("".join(self._held).strip())
        self._held = []

    def _stop_thinking(self) -> None:
        if self._thinking:
            self._thinking = False
            sys.stderr.write("\n\n")
            sys.stderr.flush()

    def _end_line(self) -> None:
        if self._markdown is not None:
            self._markdown.finish()
            sys.stdout.flush()
        elif self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._open_line = False


def first_code_block(text: str) -> str:
    """What stands in the first fenced block of an answer; the whole answer if it has none."""
    found = _FENCED.search(text)
    return found["code"] if found else text


def _markdown() -> MarkdownStream | None:
    if os.environ.get("TERM") == "dumb":
        return None
    from segue.cli.display.markdown import MarkdownStream  # noqa: PLC0415 - rich is slow to load

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    return MarkdownStream(write, size=shutil.get_terminal_size, colour=not os.environ.get("NO_COLOR"))
