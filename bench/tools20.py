"""Can a small model call tools? Twenty prompts, five tools, in both forms; really asked, with real weights.

    python -m bench.tools20 [MODEL …]

A call is sensible when the right tool is called with all its arguments and the right value in them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from jsonschema_rs import is_valid

from segue.chat.chat import Chat
from segue.conversation.message import Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.providers.embedded.provider import EmbeddedProvider
from segue.routing.route import Route
from segue.tools.definition import Context, Tool

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall
    from segue.conversation.tools import ToolChoice
    from segue.providers.embedded.grammar import FormName

Check: TypeAlias = Callable[[dict[str, Any]], bool]


def _tool(name: str, description: str, **arguments: str) -> ToolSpec:
    properties = {word: {"type": "string", "description": told} for word, told in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, {**schema, "additionalProperties": False})


TOOLS = (
    _tool("get_weather", "Tells the weather in a city right now.", city="Name of the city"),
    _tool("calculate", "Works out an arithmetic expression.", expression="For instance (2 + 3) * 4"),
    _tool("read_file", "Reads a file of the user's.", path="Path of the file"),
    _tool("send_email", "Sends an e-mail.", to="Address", subject="Subject", body="Text of the e-mail"),
    _tool("get_time", "Tells what time it is in a place.", timezone="City, country or time zone"),
)


def _has(argument: str, *words: str) -> Check:
    """The argument holds one of the words."""
    return lambda told: any(word.lower() in str(told.get(argument, "")).lower() for word in words)


def _worth(result: float) -> Check:
    def check(told: dict[str, Any]) -> bool:
        text = str(told.get("expression", "")).replace("^", "**").replace("×", "*").replace(",", "")
        if not text or set(text) - set("0123456789.+-*/() %"):
            return False
        try:
            return bool(abs(eval(text) - result) < 0.01)  # noqa: S307 - digits and operators only
        except (ArithmeticError, SyntaxError, TypeError):
            return False

    return check


PROMPTS: tuple[tuple[str, str, Check], ...] = (
    ("What's the weather like in Lisbon?", "get_weather", _has("city", "Lisbon")),
    ("Do I need an umbrella in Oslo today?", "get_weather", _has("city", "Oslo")),
    ("How warm is it in Cairo right now?", "get_weather", _has("city", "Cairo")),
    ("Is it snowing in Helsinki?", "get_weather", _has("city", "Helsinki")),
    ("What is 347 times 29?", "calculate", _worth(347 * 29)),
    ("Add 1250, 830 and 415 for me.", "calculate", _worth(1250 + 830 + 415)),
    ("How much is 15 percent of 240?", "calculate", _worth(36)),
    ("Divide 9801 by 99.", "calculate", _worth(99)),
    ("Show me what is in notes.txt.", "read_file", _has("path", "notes.txt")),
    ("Open /etc/hostname and tell me what it says.", "read_file", _has("path", "/etc/hostname")),
    ("What does my file todo.md contain?", "read_file", _has("path", "todo.md")),
    ("Read config/settings.json, please.", "read_file", _has("path", "config/settings.json")),
    ("Send an e-mail to anna@example.com that says the meeting is at 3 pm.", "send_email", _has("to", "anna@example.com")),
    ("Write to bob@example.org: the report is ready.", "send_email", _has("to", "bob@example.org")),
    ("Please mail carol@example.net and thank her for dinner.", "send_email", _has("to", "carol@example.net")),
    ("Let dave@example.com know by e-mail that I am ill today.", "send_email", _has("to", "dave@example.com")),
    ("What time is it in Tokyo?", "get_time", _has("timezone", "Tokyo", "Japan")),
    ("Tell me the current time in New York.", "get_time", _has("timezone", "New York", "New_York", "EST", "EDT")),
    ("What's the time in Berlin now?", "get_time", _has("timezone", "Berlin", "CET", "CEST")),
    ("Is it already past noon in Sydney? Look at the clock.", "get_time", _has("timezone", "Sydney")),
)  # fmt: skip
PLAIN: tuple[str, ...] = (
    "Say hello in French.",
    "Write a haiku about rain.",
    "Who wrote Hamlet?",
    "Thank you!",
)
"""Nothing to call for: words are right here."""
ANSWERS: tuple[tuple[int, str, str], ...] = (
    (0, "21 degrees, sunny", "21"),
    (4, "10063", "10063"),
    (8, "Buy milk and bread.", "milk"),
    (16, "23:41", "23:41"),
)
"""Which prompt, what its tool says, and what the answer must then hold."""


WAYS: tuple[tuple[FormName, ToolChoice], ...] = (
    ("json", "auto"),
    ("json", "required"),
    ("react", "auto"),
    ("react", "required"),
)


class Bench:
    """Asks one model in one form, as any user would: turns of a chat, with tools that give fixed answers."""

    def __init__(self, model: str, form: FormName, choice: ToolChoice) -> None:
        self._provider = EmbeddedProvider(model=model, form=form)
        self._route = Route(provider=self._provider.name, model=model)
        self._options = Options(max_tokens=200, temperature=0.0, tool_choice=choice)

    async def run(self) -> str:
        started = time.process_time()
        valid = sensible = 0
        for prompt, name, check in PROMPTS:
            reply = (await self._turn(prompt))[0]
            call = next(iter(reply.calls), None)
            fits = call is not None and _is_valid(call)
            right = call is not None and fits and call.name == name and check(call.arguments)
            valid, sensible = valid + fits, sensible + right
            if not right:
                print(f"    {prompt} -> {_shown(reply)}")
        seconds = (time.process_time() - started) / len(PROMPTS)
        told = f"{sensible}/20 sensible, {valid}/20 valid calls, {seconds:.1f} s of one core a call"
        if self._options.tool_choice == "auto":
            quiet = [(await self._turn(prompt))[0] for prompt in PLAIN]
            told += f", {sum(not reply.calls for reply in quiet)}/{len(PLAIN)} left alone"
            told += f", {await self._answered()}/{len(ANSWERS)} answered from the result"
        self._provider.close()
        return told

    async def _answered(self) -> int:
        right = 0
        for number, output, needed in ANSWERS:
            replies = await self._turn(PROMPTS[number][0], output, exchanges=2)
            right += needed in replies[-1].text
            if needed not in replies[-1].text:
                print(f"    {PROMPTS[number][0]} = {output} -> {_shown(replies[-1])}")
        return right

    async def _turn(self, prompt: str, output: str = "done", *, exchanges: int = 1) -> list[Message]:
        """What the model said in one turn."""

        async def answer(_arguments: dict[str, Any], _context: Context) -> str:
            return output

        tools = [Tool(spec=spec, run=answer) for spec in TOOLS]
        chat = Chat(
            self._route,
            tools=tools,
            providers={self._provider.name: self._provider},
            options=self._options,
            max_turns=exchanges,
        )
        async with chat:
            await chat.send(prompt)
            replies = [message for message in chat.conversation.messages if message.speaker == "model"]
            return replies or [Message("model", ())]  # it wrote nothing


def _is_valid(call: ToolCall) -> bool:
    spec = next((spec for spec in TOOLS if spec.name == call.name), None)
    return spec is not None and is_valid(spec.parameters or {}, call.arguments)


def _shown(reply: Message) -> str:
    calls = [f"{call.name}({msgspec.json.encode(call.arguments).decode()})" for call in reply.calls]
    return " ".join([*calls, reply.text[:200].replace("\n", "⏎")])


def run(models: Sequence[str] = ()) -> None:
    for model in models or [EmbeddedProvider().model]:
        for form, choice in WAYS:
            told = asyncio.run(Bench(model, form, choice).run())
            print(f"{model}, {form}, {choice}: {told}", flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
