"""`segue "…"`: asks, listens, and ends with the exit code that says how it went."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from segue import __version__
from segue.cli.chat_start import begin_chat
from segue.cli.display.status_lines import switch_line
from segue.cli.display.terminal import print_status
from segue.cli.display.turn_summary import dollars
from segue.cli.error_report import code_of, explain
from segue.cli.exit_codes import Exit
from segue.cli.one_shot import json_output
from segue.cli.one_shot.answer_schema import read_answer, read_schema
from segue.cli.one_shot.interrupts import Stop
from segue.cli.one_shot.output import JsonLinesOutput, JsonOutput, TextOutput
from segue.cli.one_shot.prompts import has_prompt, prompts
from segue.cli.runtime import Runtime
from segue.errors import ContentPolicyError, SegueError, UsageError
from segue.events import Repaired, Switch, TurnComplete

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segue.chat.chat import Chat
    from segue.chat.turn import Answer
    from segue.cli.one_shot.output import Output
    from segue.events import ChatEvent


def run(arguments: argparse.Namespace) -> int:
    """Answer a prompt; without one, and with somebody at the terminal, begin a chat."""
    if not has_prompt(arguments) and arguments.prompt is None and sys.stdin.isatty():
        return _interactive(arguments)
    return int(asyncio.run(_OneShot(arguments).run()))


def _interactive(arguments: argparse.Namespace) -> int:
    if not sys.stdout.isatty():
        raise UsageError(
            "There is nothing to ask.", code="no_prompt", hint='Write a prompt: segue "…", or pipe one in.'
        )
    from segue.cli.interactive.run import run as converse  # noqa: PLC0415 - slow to load

    return converse(arguments)


class _OneShot:
    """One run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._schema = read_schema(arguments.schema) if arguments.schema else None
        self._output: Output | None = None
        self._began = time.monotonic()
        self._session = self._model = ""
        self._repairs = 0
        self._cost = 0.0

    async def run(self) -> Exit:
        stop = Stop()
        try:
            with stop.on_signals(), stop.after(self._arguments.timeout):
                return await self._answer_all(stop)
        except SegueError as error:
            return self._failed(error)
        except asyncio.CancelledError:
            if not stop.why:
                raise
            return self._failed(stopped) if (stopped := stop.error()) else stop.exit()

    async def _answer_all(self, stop: Stop) -> Exit:
        asked = _Asked(prompts(self._arguments))
        first = await asked.next()
        runtime = Runtime(self._arguments, response_schema=self._schema)
        self._output = self._make_output(runtime)
        try:
            async with await self._opened(runtime) as chat:
                stop.cancel_turn = chat.cancel
                self._output.begin(self._init(chat, runtime))
                code = Exit.OK
                prompt: str | None = first
                while prompt is not None and code == Exit.OK:
                    with stop.after(None if self._arguments.timeout else runtime.config.limits.timeout):
                        code = await self._turn(chat, prompt, stop, runtime)
                    prompt = await asked.next()
                return code
        finally:
            await runtime.close()

    async def _opened(self, runtime: Runtime) -> Chat:
        quiet = self._arguments.quiet
        on_switch = self._output.handle if self._output is not None else lambda _switch: None
        return await begin_chat(
            runtime,
            self._arguments,
            report=(lambda _line: None) if quiet else print_status,
            on_switch=on_switch,
        )

    async def _turn(self, chat: Chat, prompt: str, stop: Stop, runtime: Runtime) -> Exit:
        assert self._output is not None  # noqa: S101 - made before any chat
        self._began = time.monotonic()
        self._session, self._model, self._repairs = chat.id, chat.model, 0
        self._output.prompt(prompt)
        async for event in chat.stream(prompt):
            self._watch(event, stop, runtime)
            self._output.handle(event)
        answer = chat.answer
        assert answer is not None  # noqa: S101 - a turn that is over has one
        if stop.why in ("interrupted", "terminated"):
            self._output.end(self._result(answer, "error_cancelled", None))
            return stop.exit()
        error = stop.error() or answer.error or _refusal(answer)
        value: Any = None
        if error is None and self._schema is not None and answer.finish == "complete":
            try:
                value = read_answer(answer.text, self._schema)
            except SegueError as caught:
                error = caught
        if self._arguments.output_last_message:
            Path(self._arguments.output_last_message).write_text(answer.text, "utf-8", "replace")
        self._output.end(self._result(answer, _subtype(answer, stop, error), error, value))
        return self._told(answer, error)

    def _told(self, answer: Answer, error: SegueError | None) -> Exit:
        if error is not None:
            return explain(error, about=answer.model)
        if answer.finish == "max_turns":
            print_status("segue: The turn was stopped at its limit of exchanges with the model.")
            print_status('       Go on with: segue -c "go on"; or allow more: --max-turns N.')
            return Exit.TURN_LIMIT
        if answer.finish == "length" and not self._arguments.quiet:
            print_status("The answer was cut off: it is as long as the model may answer.")
        return Exit.OK

    def _watch(self, event: ChatEvent, stop: Stop, runtime: Runtime) -> None:
        """What the listener need not know: limits, and counts for the result."""
        if type(event) is Repaired:
            self._repairs += len(event.repairs)
        elif type(event) is Switch:
            if event.losses and self._arguments.strict:
                stop("loss", switch_line(event))
        elif type(event) is TurnComplete:
            self._count(event, self._arguments.max_cost or runtime.config.limits.max_cost, stop)

    def _count(self, event: TurnComplete, most: float | None, stop: Stop) -> None:
        if event.cost is None and most is not None and event.number == 1:
            print_status(
                f"The price of {event.model} is not known, so the limit of {dollars(most)} cannot be kept."
            )
        self._cost += event.cost or 0.0
        if most is not None and self._cost > most:
            stop("cost", dollars(self._cost))

    def _make_output(self, runtime: Runtime) -> Output:
        arguments, ui = self._arguments, runtime.config.ui
        match arguments.output_format:
            case "json":
                return JsonOutput()
            case "stream-json":
                return JsonLinesOutput(partial=arguments.include_partial_messages)
            case _:
                return TextOutput(
                    tools=bool(runtime.tools),
                    markdown=ui.markdown and not arguments.plain,
                    reasoning=ui.reasoning and not arguments.hide_reasoning,
                    quiet=arguments.quiet,
                    status=ui.status,
                    raw=arguments.raw_output,
                )

    def _init(self, chat: Chat, runtime: Runtime) -> json_output.InitEvent:
        return json_output.InitEvent(
            session_id=chat.id,
            model=chat.model,
            tools=[tool.name for tool in runtime.tools],
            cwd=str(runtime.directory),
            version=__version__,
        )

    def _failed(self, error: SegueError) -> Exit:
        """The run ended before there was a turn: scripts get their result all the same."""
        if self._arguments.output_format != "text":
            from segue.chat.turn import Answer  # noqa: PLC0415

            nothing = Answer(finish="error", error=error)
            JsonOutput().end(self._result(nothing, _subtype_of(error), error))
        explain(error)
        return code_of(error)

    def _result(
        self, answer: Answer, subtype: json_output.Subtype, error: SegueError | None, value: Any = None
    ) -> json_output.ResultEvent:
        return json_output.ResultEvent(
            subtype=subtype,
            is_error=subtype != "success",
            duration_ms=round((time.monotonic() - self._began) * 1000),
            num_turns=answer.exchanges,
            result=answer.text,
            session_id=self._session,
            total_cost_usd=answer.cost,
            usage=json_output.Tokens(**msgspec.structs.asdict(answer.usage)),
            stop_reason="error" if error is not None and answer.finish == "complete" else answer.finish,
            model=answer.model or self._model,
            repairs=self._repairs,
            structured_output=value,
            error=None if error is None else json_output.error_info(error),
        )


class _Asked:
    """Prompts, waited for in a thread of their own: stdin may be silent for long, and Ctrl-C must not wait for it."""

    def __init__(self, source: Iterator[str]) -> None:
        self._source = source

    async def next(self) -> str | None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[str | None] = loop.create_future()

        def settle(prompt: str | None, error: BaseException | None) -> None:
            if told.done():
                return
            if error is not None:
                told.set_exception(error)
            else:
                told.set_result(prompt)

        def read() -> None:
            prompt: str | None = None
            error: BaseException | None = None
            try:
                prompt = next(self._source, None)
            except Exception as caught:
                error = caught
            loop.call_soon_threadsafe(settle, prompt, error)

        threading.Thread(target=read, daemon=True).start()
        return await told


def _refusal(answer: Answer) -> SegueError | None:
    if answer.finish != "content_filter":
        return None
    return ContentPolicyError(
        f"{answer.model} withheld its answer, or the rest of it.",
        hint="Ask in other words, or ask another model: -m provider/model.",
    )


def _subtype(answer: Answer, stop: Stop, error: SegueError | None) -> json_output.Subtype:
    if stop.why == "timeout":
        return "error_timeout"
    if stop.why == "cost":
        return "error_max_cost"
    if error is not None:
        return "error_during_execution"
    return "error_max_turns" if answer.finish == "max_turns" else "success"


def _subtype_of(error: SegueError) -> json_output.Subtype:
    return "error_timeout" if error.code == "timed_out" else "error_during_execution"
