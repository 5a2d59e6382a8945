"""`segue "…"`: one run per process. The prompt comes from arguments, files and stdin; the answer goes to stdout; the exit code
says how the run ended."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, field

from segue import __version__
from segue.chat.attachments import of_bytes
from segue.chat.turn import Answer
from segue.cli.attachments import check_media, read_attachment, with_attachments
from segue.cli.display.terminal import print_status
from segue.cli.display.turn_summary import dollars
from segue.cli.error_report import report_error
from segue.cli.exit_codes import Exit
from segue.cli.flag_values import apply_template, read_schema, variables_of
from segue.cli.one_shot import json_output
from segue.cli.one_shot.output import JsonLinesOutput, JsonOutput, make_output
from segue.cli.runtime import Runtime, lossy_switch_error
from segue.conversation.blocks import Media, Text
from segue.conversation.options import NO_OPTIONS
from segue.errors import ContentPolicyError, SegueError, UsageError
from segue.events import Repaired, Switch, TurnComplete
from segue.providers.models.prices import CATALOG_PRICES, prices_of
from segue.system import signals
from segue.system.worker_threads import in_thread
from segue.tools.media_types import mime_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from segue.chat.chat import Chat
    from segue.cli.one_shot.output import TurnOutput
    from segue.config.templates import Template
    from segue.conversation.blocks import Block
    from segue.events import ChatEvent


HINT_SECONDS: Final = 3.0
"""After this time a user whose stdin is open by mistake learns what is read."""


def read_prompts(
    arguments: argparse.Namespace, template: Template | None = None
) -> Iterator[tuple[Block, ...]]:
    """One prompt with its attachments, or one for each line of stdin."""
    if arguments.input_format == "stream-json":
        for text in _messages():
            yield (Text(text),)
    else:
        yield _prompt(arguments, template)


def _prompt(arguments: argparse.Namespace, template: Template | None) -> tuple[Block, ...]:
    words = [*arguments.words, *([arguments.prompt] if arguments.prompt else [])]
    stdin = cache(_read_stdin)
    attached = [read_attachment(source, stdin) for source in arguments.attachments]
    # Only what was typed mentions files: piped text is not the user's own.
    typed = " ".join(words)
    mentioned = with_attachments(typed, Path.cwd())[1:] if "@" in typed else ()
    content = b"" if "-" in arguments.attachments else stdin()
    piped = _piped(content, attached) if content else ""
    if "-" in words:
        prompt = " ".join(piped.strip() if word == "-" else word for word in words)
    elif words and piped.strip():
        prompt = f"{typed}\n\n<stdin>\n{piped.strip()}\n</stdin>"
    else:
        prompt = typed or piped
    if template is not None:
        prompt = template.fill(prompt, variables_of(arguments))
    if not prompt.strip() and not attached:
        raise UsageError(
            "The prompt is empty.", code="no_prompt", hint='Write a prompt: segue "…", or pipe one in.'
        )
    return (*((Text(prompt),) if prompt.strip() else ()), *attached, *mentioned)


def _piped(content: bytes, attached: list[Block]) -> str:
    """Piped text. Media is attached instead, and anything else is refused, since no model can read it."""
    if mime_of(content):
        attached.append(of_bytes(content, name="stdin"))
        return ""
    text = content.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        of_bytes(content, name="stdin")  # raises why it cannot be sent
    return text


def _read_stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    hint = threading.Timer(
        HINT_SECONDS, print_status, ["Reading stdin to its end. If nothing is piped in, add: </dev/null"]
    )
    hint.daemon = True
    hint.start()
    try:
        return sys.stdin.buffer.read()
    finally:
        hint.cancel()


def _messages() -> Iterator[str]:
    """`{"type": "user", "message": {"role": "user", "content": "…"}}`, or `{"role": "user", "content": "…"}` per line."""
    empty = True
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        if line.strip():
            empty = False
            yield _text(_message(line, number), number)
    if empty:
        raise UsageError("stdin is empty.", code="no_prompt", hint="Send one JSON object per line.")


def _message(line: bytes, number: int) -> Any:
    try:
        message: Any = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise _bad(number, f"is not JSON: {error}") from error
    if isinstance(message, dict) and isinstance(message.get("message"), dict):
        message = message["message"]
    if not isinstance(message, dict) or message.get("role", "user") != "user" or "content" not in message:
        raise _bad(number, "is not a user message")
    return message["content"]


def _text(content: Any, number: int) -> str:
    if isinstance(content, list):
        parts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "\n".join(parts) if all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str) or not content.strip():
        raise _bad(number, "has no text")
    return content


def _bad(number: int, what: str) -> UsageError:
    return UsageError(
        f"Line {number} of stdin {what}.",
        code="bad_input",
        hint='--input-format stream-json reads lines like {"role": "user", "content": "…"}',
    )


StopCause: TypeAlias = Literal["", "interrupted", "terminated", "timeout", "cost", "loss"]
_BY_CODE: Mapping[str, json_output.Subtype] = {
    "timed_out": "error_timeout",
    "too_expensive": "error_max_cost",
}
"""What a result is called, by the code of its error."""


@final
class _Stop(Struct):
    """Ctrl-C, SIGTERM or a limit stops the run: the first cause counts, a second signal stops at once. The session is saved
    and valid in every case."""

    cause: StopCause = ""
    error: SegueError | None = None
    """The error to report; None for a signal."""
    cancel_turn: Callable[[], bool] = lambda: False
    """Cancels the running turn; False if there is none."""
    _task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)

    def __call__(self, cause: StopCause, error: SegueError | None = None) -> None:
        again = bool(self.cause)
        if not again:
            self.cause, self.error = cause, error
        running = self.cancel_turn()
        # Limits found while events are handled are reported after the last event.
        if self._task is not None and (again or not running) and cause not in ("cost", "loss"):
            self._task.cancel()

    @contextmanager
    def after(self, seconds: float | None) -> Iterator[None]:
        """Stop when the block takes longer."""
        if seconds is None:
            yield
            return
        error = UsageError(
            f"There was no complete answer within {seconds:g} s.",
            code="timed_out",
            hint="Allow more time: --timeout SECONDS",
        )
        timer = asyncio.get_running_loop().call_later(seconds, self, "timeout", error)
        try:
            yield
        finally:
            timer.cancel()

    @property
    def exit_code(self) -> Exit:
        return Exit.TERMINATED if self.cause == "terminated" else Exit.INTERRUPTED


def run(arguments: argparse.Namespace) -> int:
    return int(asyncio.run(_OneShot(arguments).run()))


class _OneShot:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._template = apply_template(arguments) if arguments.template or arguments.variables else None
        self._schema = read_schema(arguments.schema) if arguments.schema else None
        self._started = time.monotonic()
        self._session = self._model = ""
        self._repairs = 0
        self._cost = 0.0
        self._ignored: list[str] = []
        self._not_restored: list[str] = []
        self._options = NO_OPTIONS
        self._prices = CATALOG_PRICES

    async def run(self) -> Exit:
        stop = _Stop()
        ends = dict.fromkeys(signals.END, partial(stop, "terminated"))
        try:
            with (
                signals.handle({signals.INTERRUPT: partial(stop, "interrupted"), **ends}),
                stop.after(self._arguments.timeout),
            ):
                return await self._answer_all(stop)
        except SegueError as error:
            return self._fail(error)
        except asyncio.CancelledError:
            if not stop.cause:
                raise
            return self._fail(stop.error) if stop.error else stop.exit_code

    async def _answer_all(self, stop: _Stop) -> Exit:
        prompts = read_prompts(self._arguments, self._template)
        # In a thread: stdin may be silent for long, and Ctrl-C must not wait for it.
        next_prompt = partial(in_thread, partial(next, prompts, None), "segue-stdin")
        prompt = await next_prompt()
        runtime = Runtime(self._arguments)
        self._ignored, self._options = runtime.ignored, runtime.given
        self._prices = prices_of(runtime.providers)
        output = make_output(self._arguments, runtime)
        at_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        ask = _ask_user if at_terminal else None
        report = (lambda _line: None) if self._arguments.quiet else print_status
        try:
            async with await runtime.open_chat(report=report, on_switch=output.handle, ask=ask) as chat:
                stop.cancel_turn = chat.cancel
                self._not_restored = runtime.not_restored
                self._session, self._model = chat.id, chat.model
                await runtime.remember_tools(chat)
                if type(output) is JsonLinesOutput:
                    output.begin(
                        json_output.InitEvent(
                            session_id=self._session,
                            model=self._model,
                            tools=[tool.name for tool in runtime.tools],
                            cwd=str(runtime.directory),
                            version=__version__,
                            instructions=runtime.instructions,
                            ignored=runtime.ignored,
                            not_restored=runtime.not_restored,
                        )
                    )
                code, limits = Exit.OK, runtime.config.limits
                while prompt is not None and code == Exit.OK:
                    with stop.after(None if self._arguments.timeout else limits.timeout):
                        most = self._arguments.max_cost or limits.max_cost
                        code = await self._run_turn(chat, prompt, output, stop, most)
                    prompt = await next_prompt()
                return code
        finally:
            await runtime.close()

    async def _run_turn(
        self, chat: Chat, prompt: tuple[Block, ...], output: TurnOutput, stop: _Stop, max_cost: float | None
    ) -> Exit:
        self._started = time.monotonic()
        self._repairs = 0
        if any(type(block) is Media for block in prompt):
            check_media(chat, prompt)
        if type(output) is JsonLinesOutput:
            output.prompt(prompt)
        async for event in chat.stream(*prompt, output=self._schema, options=self._options):
            self._watch(event, stop, max_cost)
            output.handle(event)
        answer = chat.answer
        assert answer is not None  # noqa: S101 - a finished turn has one
        if stop.cause in ("interrupted", "terminated"):
            output.end(self._result(answer, None, cancelled=True))
            return stop.exit_code
        error = stop.error or answer.error
        if answer.finish == "content_filter":
            error = error or ContentPolicyError(
                f"{answer.model} withheld its answer, or the rest of it.",
                hint="Rephrase the prompt, or use another model: -m provider/model",
            )
        if self._arguments.output_last_message:
            Path(self._arguments.output_last_message).write_text(answer.text, "utf-8", "replace")
        output.end(self._result(answer, error))
        if error is not None:
            return report_error(error, model=answer.model)
        if answer.finish == "max_turns":
            print_status("segue: The turn was stopped: it reached its limit of requests to the model.")
            print_status('       Resume it: segue -c "continue". Allow more: --max-turns N')
            return Exit.TURN_LIMIT
        if answer.finish == "length" and not self._arguments.quiet:
            print_status("The answer is cut off: the model reached its output limit.")
        return Exit.OK

    def _watch(self, event: ChatEvent, stop: _Stop, max_cost: float | None) -> None:
        """Count for the result, and keep the limits."""
        if type(event) is Repaired:
            self._repairs += len(event.repairs)
        elif type(event) is Switch:
            if event.losses and self._arguments.strict:
                stop("loss", lossy_switch_error(event))
        elif type(event) is TurnComplete:
            provider, _, model = event.model.partition("/")
            known = (
                self._prices.least_cost(event.usage, provider, model) if event.cost is None else event.cost
            )
            if event.cost is None and max_cost is not None and event.number == 1:
                what, checked = (
                    ("A part of the price", "checked for the rest") if known else ("The price", "not checked")
                )
                print_status(
                    f"{what} of {event.model} is unknown, so the limit of {dollars(max_cost)} is {checked}."
                )
            self._cost += known
            if max_cost is not None and self._cost > max_cost:
                error = UsageError(
                    f"The answer has cost {dollars(self._cost)} so far.",
                    code="too_expensive",
                    hint="Allow more: --max-cost USD",
                )
                stop("cost", error)

    def _fail(self, error: SegueError) -> Exit:
        """The run ended before a turn: scripts get a result all the same."""
        if self._arguments.output_format != "text":
            answer = Answer(finish="error", error=error)
            JsonOutput().end(self._result(answer, error))
        return report_error(error)

    def _result(
        self, answer: Answer, error: SegueError | None, *, cancelled: bool = False
    ) -> json_output.ResultEvent:
        subtype: json_output.Subtype = "success"
        if cancelled:
            subtype = "error_cancelled"
        elif error is not None:
            subtype = _BY_CODE.get(error.code, "error_during_execution")
        elif answer.finish == "max_turns":
            subtype = "error_max_turns"
        return json_output.ResultEvent(
            subtype=subtype,
            is_error=subtype != "success",
            duration_ms=round((time.monotonic() - self._started) * 1000),
            num_turns=answer.exchanges,
            result=answer.text,
            session_id=self._session,
            total_cost_usd=answer.cost,
            usage=json_output.Tokens(**msgspec.structs.asdict(answer.usage)),
            stop_reason="error" if error is not None and answer.finish == "complete" else answer.finish,
            model=answer.model or self._model,
            repairs=self._repairs,
            structured_output=answer.output,
            error=None if error is None else json_output.error_info(error),
            ignored=self._ignored,
            not_restored=self._not_restored,
        )


async def _ask_user(parts: Sequence[str]) -> bool:
    """Ask whoever sits at the terminal."""
    from prompt_toolkit.input import create_input  # noqa: PLC0415 - slow to load

    from segue.cli.interactive.prompts.questions import ConsentPrompt  # noqa: PLC0415
    from segue.cli.interactive.views.screen import Screen  # noqa: PLC0415

    plain = os.environ.get("TERM") == "dumb"
    screen = Screen(sys.stderr, plain=plain, markdown=False)
    return await ConsentPrompt(screen, create_input())(parts)
