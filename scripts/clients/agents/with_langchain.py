"""A tool turn with LangChain: `python with_langchain.py MODEL PROMPT`."""

import sys
from pathlib import Path

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def read_note(path: str) -> str:
    """Read a note."""
    return Path(path).read_text()


model = ChatOpenAI(model=sys.argv[1]).bind_tools([read_note])
messages = [HumanMessage(sys.argv[2])]
for _ in range(5):
    reply = model.invoke(messages)
    messages.append(reply)
    if not reply.tool_calls:
        break
    messages += [
        ToolMessage(read_note.invoke(call["args"]), tool_call_id=call["id"]) for call in reply.tool_calls
    ]
print(reply.text if isinstance(reply.text, str) else reply.text())
