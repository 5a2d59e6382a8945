"""pydantic-ai with any model: a tool, a switch in the middle of the conversation, and a typed answer.

Run: python -m pip install . 'pydantic-ai-slim[openai]'; python with_pydantic_ai.py
"""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput

from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, Think
from segue.gateway import gateway_app
from segue.integrations.pydantic_ai import SegueModel
from segue.testing import emulated_providers


class Advice(BaseModel):
    """What to take along."""

    umbrella: bool
    why: str


# Emulated APIs answer here. With keys in your environment, leave `app` out everywhere: the real ones do.
replies = [
    Reply(pieces=(Think("Look it up."), Call("weather", {"city": "Oslo"}))),
    Reply(pieces=(Say("It rains in Oslo."),)),
    Reply(pieces=(Say('{"umbrella": true, "why": "It rains."}'),)),
    Reply(pieces=(Say("As I thought."),)),
]
emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
app = gateway_app(providers=emulated_providers(emulator))

agent = Agent(instructions="Be brief.")


@agent.tool_plain
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


gemini = SegueModel("gemini/gemini-3.5-flash", app=app)
claude = SegueModel("anthropic/claude-sonnet-4-6", app=app)
first = agent.run_sync("How is the weather in Oslo?", model=gemini)
print("Gemini:", first.output)
second = agent.run_sync(
    "Do I need an umbrella?",
    model=claude,
    message_history=first.all_messages(),
    output_type=NativeOutput(Advice),
)
print("Claude:", second.output)
third = agent.run_sync("Are you sure?", model=gemini, message_history=second.all_messages())
print("Gemini again, with its own signatures:", third.output)
print("refused:", [entry.message for entry in emulator.log if entry.verdict == "refused"])
app.close()

# Prints:
# Gemini: It rains in Oslo.
# Claude: umbrella=True why='It rains.'
# Gemini again, with its own signatures: As I thought.
# refused: []
