"""A tool turn with the OpenAI SDK, over Chat Completions, streamed."""

import json

from openai import OpenAI
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
# So that models which sign their thoughts have some; a model that has none refuses the field.
THINKING = {} if MODEL.endswith("gpt-4.1") else {"reasoning_effort": "high"}
FUNCTION = {"name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA}


def ask(history: list) -> str:
    with client.chat.completions.stream(
        model=MODEL, messages=history, tools=[{"type": "function", "function": FUNCTION}], **THINKING
    ) as stream:
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
