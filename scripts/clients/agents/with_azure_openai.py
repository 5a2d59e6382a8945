"""A tool turn with OpenAI's client for Azure, over the paths of deployments: streamed, then whole behind the results."""

import json

from openai import AzureOpenAI
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = AzureOpenAI(azure_endpoint=URL, api_key=KEY, api_version="2025-04-01-preview")
FUNCTION = {"name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA}
# So that models which sign their thoughts have some; a model that has none refuses the field.
THINKING = {} if MODEL.endswith("gpt-4.1") else {"reasoning_effort": "high"}
FIXED = {"model": MODEL, "tools": [{"type": "function", "function": FUNCTION}], **THINKING}


def ask(history: list) -> str:
    if history[-1]["role"] == "tool":
        message = client.chat.completions.create(messages=history, **FIXED).choices[0].message
    else:
        with client.chat.completions.stream(messages=history, **FIXED) as stream:
            message = stream.get_final_completion().choices[0].message
    history.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    for call in history[-1].get("tool_calls", ()):
        call["function"].pop("parsed_arguments", None)
    if not message.tool_calls:
        return message.content or "(empty)"
    save(history)
    history += [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": read_note(**json.loads(call.function.arguments)),
        }
        for call in message.tool_calls
    ]
    return ""


run(ask, [*load(), {"role": "user", "content": PROMPT}])
