"""Seven wires at their strict emulators, and a model that does what the user's words ask for."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from segue.chat.chat import Chat
from segue.conversation.options import Options
from segue.emulators.emulator import Entry
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.emulators.server import Served
from segue.events import ToolCallResult
from segue.providers.provider import Provider
from segue.routing.profiles import PolicyName, Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from
from strategies.provider_places import CLOUDS, PLACES, Place, mount_of, provider_at
from strategies.samples import sample

_MORE = (
    Place("openai", "/v1", "gpt-4o-mini"),
    Place("openai", "/v1", "o4-mini"),
    Place("anthropic", "", "claude-haiku-4-5"),
    Place("gemini", "/v1beta", "gemini-2.5-flash"),
    Place("mistral", "/v1", "magistral-medium-latest"),
    Place("kimi", "/v1", "kimi-k3"),
    Place("deepseek", "", "deepseek-reasoner"),
    Place("ollama", "", "llama3.2"),
    Place("bedrock", "", "amazon.nova-lite-v1:0"),
)
"""Another model of every provider, with other rules about reasoning."""
WIRES: tuple[Place, ...] = (
    (*PLACES, *_MORE)
    if os.environ.get("SEGUE_STORIES")
    else tuple(place for place in PLACES if place.name != "deepseek")
)
"""OpenAI Chat and Responses, Anthropic, Gemini, Mistral, Kimi, Ollama, Converse; `make stories` adds DeepSeek and more models."""
NAMES = tuple(f"{place.name}/{place.model}" for place in WIRES)
AT_CLOUDS = (
    Place("azure-openai", CLOUDS["azure-openai"][1], "gpt-5.5"),
    Place("azure-anthropic", CLOUDS["azure-anthropic"][1], "claude-sonnet-4-6"),
    Place("vertex", CLOUDS["vertex"][1], "gemini-3.5-flash"),
    Place("vertex-anthropic", CLOUDS["vertex-anthropic"][1], "claude-sonnet-4-6"),
    Place("bedrock-invoke", "", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    Place("bedrock-mantle", "", "anthropic.claude-opus-4-8"),
    Place("claude-aws", "", "claude-sonnet-4-6"),
)
_HOMES = {
    "azure-openai": "openai/gpt-5.5",
    "azure-anthropic": "anthropic/claude-sonnet-4-6",
    "vertex": "gemini/gemini-3.5-flash",
    "vertex-anthropic": "anthropic/claude-sonnet-4-6",
    "bedrock-invoke": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "bedrock-mantle": "anthropic/claude-sonnet-4-6",
    "claude-aws": "anthropic/claude-sonnet-4-6",
}
_CLOUD_NAMES = tuple(f"{place.name}/{place.model}" for place in AT_CLOUDS)
PAIRS = [
    *((one, other) for one in NAMES for other in NAMES if one != other),
    # A cloud and the home of its wire, whose seals look alike; and the clouds one after another.
    *((_HOMES[name.partition("/")[0]], name) for name in _CLOUD_NAMES),
    *zip(_CLOUD_NAMES, (*_CLOUD_NAMES[1:], NAMES[0]), strict=True),
]
SOME_PAIRS = PAIRS if os.environ.get("SEGUE_STORIES") else sample(PAIRS, 20)
"""For the long stories: a sample of the pairs, and all of them in `make stories`."""


class StoryResponder:
    """Looks at two cities, fans out, or just talks, as the last words of the user say."""

    def reply(self, prompt: Prompt) -> Reply:
        thoughts: list[Piece] = [Think("Let me see what is asked for.")] if prompt.thinking else []
        offered = {offer.name for offer in prompt.tools}
        if prompt.text.endswith(
            "slowly"
        ):  # on some wires the results of a cancelled turn stand in the same message
            return Reply(pieces=(*thoughts, Say("Once upon a time. " * 40)), delay=0.05)
        if prompt.results or not offered:
            return Reply(pieces=(*thoughts, Say(f"I know: {len(prompt.results)} results.")))
        if "look" in prompt.text:
            cities = [Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})]
            return Reply(pieces=(*thoughts, Say("I will look."), *cities[: 2 if prompt.parallel else 1]))
        if "fan out" in prompt.text:
            calls = (Call("weather", {"city": "Bern"}), *(Call("wait", {"n": n}) for n in range(4)))
            return Reply(pieces=(*thoughts, *calls))
        if "every tool" in prompt.text:
            wishes = (
                Call("mcp__sums__add", {"a": 1, "b": 2}),
                Call("write_file", {"path": "notes.txt", "content": "rain"}),
                Call("run_shell", {"command": "touch no"}),
                Call("explore", {"task": "look at two cities"}),
            )
            return Reply(pieces=(*thoughts, *wishes))
        return Reply(pieces=(*thoughts, Say("So it is.")))

    def reset(self) -> None:
        """Nothing is remembered."""


def weather(city: str) -> dict[str, Any]:
    """The weather of a city."""
    return {"city": city, "sky": "rain"}


async def wait(n: int) -> str:
    """Waits for ever."""
    await asyncio.sleep(3600)
    return str(n)


class World:
    """The emulators, and chats that go to them."""

    def __init__(self, served: Served) -> None:
        self.emulator = served.emulator
        self.providers: dict[str, Provider] = {
            place.name: provider_at(served, place) for place in (*WIRES, *AT_CLOUDS)
        }

    def chat(self, model: Any, **settings: Any) -> Chat:
        given: dict[str, Any] = {
            "tools": [weather, wait],
            "system": "You answer questions about the weather.",
            "options": Options(effort="medium", max_tokens=4000),
            "providers": self.providers,
        }
        return Chat(model, **(given | settings))

    def router(self, policy: PolicyName, *members: str) -> Any:
        profile = Profile(
            name="story", policy=policy, members=members, retry=RetrySettings(attempts=1, first_pause=0.0)
        )
        return build_router(profile, facts_from(self.providers))

    def refusals(self) -> list[Entry]:
        return [entry for entry in self.emulator.log if entry.verdict == "refused"]

    def requests(self, name: str) -> list[Entry]:
        """What a model was asked, whatever came of it."""
        provider, _, model = name.partition("/")
        return [
            entry
            for entry in self.emulator.log
            if entry.provider == mount_of(provider)
            and (model in entry.path or model in str(entry.body.get("model")))
        ]


async def cancelled_fan_out(chat: Chat) -> None:
    """Five calls, of which one is done when the user loses patience."""
    known = set(chat.ledger)
    async for event in chat.stream("fan out"):
        if type(event) is ToolCallResult and event.result.reason is None:
            chat.cancel()
    ends = [interaction.status for call, interaction in chat.ledger.items() if call not in known]
    assert ends == ["complete", *["cancelled"] * 4]


async def cancelled_text(chat: Chat) -> None:
    """The user has read enough."""
    async for event in chat.stream("tell it slowly"):
        if event.type == "text":
            chat.cancel()
    assert chat.answer is not None
    assert chat.answer.finish == "cancelled", (chat.answer.model, chat.answer.error)


async def good_turn(chat: Chat, said: str = "look") -> None:
    answer = await chat.send(said)
    assert answer.error is None, answer.error
    assert answer.finish == "complete"
    assert answer.text.startswith("I know")
