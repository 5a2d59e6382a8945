"""A tool turn with the Ollama SDK, with thoughts."""

from ollama import Client
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = Client(host=URL, headers={"authorization": f"Bearer {KEY}"})
TOOL = {
    "type": "function",
    "function": {"name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA},
}


def ask(history: list) -> str:
    message = client.chat(model=MODEL, messages=history, tools=[TOOL], think=True).message
    history.append(message.model_dump(mode="json", exclude_none=True))
    if not message.tool_calls:
        return message.content or "(empty)"
    save(history)
    history += [
        {"role": "tool", "tool_name": call.function.name, "content": read_note(**call.function.arguments)}
        for call in message.tool_calls
    ]
    return ""


run(ask, [*load(), {"role": "user", "content": PROMPT}])
