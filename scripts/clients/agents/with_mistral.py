"""A tool turn with the Mistral SDK."""

import json

from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

try:
    from mistralai import Mistral
except ImportError:  # its second version has another place for it
    from mistralai.client import Mistral

client = Mistral(api_key=KEY, server_url=URL)
FUNCTION = {"name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA}


def ask(history: list) -> str:
    tools = [{"type": "function", "function": FUNCTION}]
    message = client.chat.complete(model=MODEL, messages=history, tools=tools).choices[0].message
    history.append(json.loads(message.model_dump_json(exclude_none=True)))
    if not message.tool_calls:
        content = message.content
        texts = content if isinstance(content, str) else "".join(getattr(p, "text", "") for p in content)
        return texts or "(empty)"
    save(history)
    for call in message.tool_calls:
        arguments = call.function.arguments
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        history.append(
            {
                "role": "tool",
                "tool_call_id": call.id,
                "name": call.function.name,
                "content": read_note(**values),
            }
        )
    return ""


run(ask, [*load(), {"role": "user", "content": PROMPT}])
