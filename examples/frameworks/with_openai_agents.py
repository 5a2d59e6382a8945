"""The OpenAI Agents SDK with any model: two agents of different models, a tool, and a session.

Run: python -m pip install . openai-agents; python with_openai_agents.py
"""

from __future__ import annotations

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool

from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, Think
from segue.gateway import gateway_app
from segue.integrations.openai_agents import SegueModelProvider
from segue.testing import emulated_providers

# Emulated APIs answer here. With keys in your environment `SegueModelProvider()` is all: then the real ones do.
replies = [
    Reply(pieces=(Think("Look it up."), Call("weather", {"city": "Oslo"}))),
    Reply(pieces=(Say("It rains in Oslo."),)),
    Reply(pieces=(Say("Take an umbrella."),)),
    Reply(pieces=(Say("As I thought."),)),
]
emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
app = gateway_app(providers=emulated_providers(emulator))


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


gemini = Agent(name="Observer", model="gemini/gemini-3.5-flash", tools=[weather])
claude = Agent(name="Adviser", model="anthropic/claude-sonnet-4-6")
# Traces would go to OpenAI.
config = RunConfig(model_provider=SegueModelProvider(app), tracing_disabled=True)
session = SQLiteSession("one conversation")
for agent, words in ((gemini, "Weather in Oslo?"), (claude, "What do I need?"), (gemini, "Are you sure?")):
    run = Runner.run_sync(agent, words, session=session, run_config=config)
    print(f"{agent.name}: {run.final_output}")
print("refused:", [entry.message for entry in emulator.log if entry.verdict == "refused"])
app.close()

# Prints:
# Observer: It rains in Oslo.
# Adviser: Take an umbrella.
# Observer: As I thought.
# refused: []
