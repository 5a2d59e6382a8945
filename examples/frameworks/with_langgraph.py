"""LangGraph with any model: a graph with a tool and a checkpoint, whose model changes from turn to turn.

Run: python -m pip install . langchain-openai langgraph; python with_langgraph.py
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, Think
from segue.gateway import gateway_app
from segue.integrations.langchain import ChatSegue
from segue.testing import emulated_providers

# Emulated APIs answer here. With keys in your environment, leave `app` out everywhere: the real ones do.
replies = [
    Reply(pieces=(Think("Look it up."), Call("weather", {"city": "Oslo"}))),
    Reply(pieces=(Say("It rains in Oslo."),)),
    Reply(pieces=(Say("Take an umbrella."),)),
    Reply(pieces=(Say("As I thought."),)),
]
emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
app = gateway_app(providers=emulated_providers(emulator))


class State(MessagesState):
    """The model stands in the state, beside the messages."""

    model: str


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def ask(state: State) -> dict[str, Any]:
    model = ChatSegue(model=state["model"], app=app).bind_tools([weather])
    return {"messages": [model.invoke(state["messages"])]}


builder = StateGraph(State).add_node("ask", ask).add_node("tools", ToolNode([weather]))
builder.add_edge(START, "ask").add_conditional_edges("ask", tools_condition).add_edge("tools", "ask")
graph = builder.compile(checkpointer=InMemorySaver())
thread: Any = {"configurable": {"thread_id": "1"}}
gemini, claude = "gemini/gemini-3.5-flash", "anthropic/claude-sonnet-4-6"
for model, words in ((gemini, "Weather in Oslo?"), (claude, "What do I need?"), (gemini, "Are you sure?")):
    done = graph.invoke({"messages": [("user", words)], "model": model}, thread)
    print(f"{model}: {done['messages'][-1].text}")
print("refused:", [entry.message for entry in emulator.log if entry.verdict == "refused"])
app.close()

# Prints:
# gemini/gemini-3.5-flash: It rains in Oslo.
# anthropic/claude-sonnet-4-6: Take an umbrella.
# gemini/gemini-3.5-flash: As I thought.
# refused: []
