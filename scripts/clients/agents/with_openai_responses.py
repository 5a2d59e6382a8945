"""A tool turn with the OpenAI SDK, over Responses, with encrypted reasoning kept by the client."""

import json

from openai import OpenAI
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
TOOL = {"type": "function", "name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA}


def ask(history: list) -> str:
    reply = client.responses.create(
        model=MODEL,
        input=history,
        tools=[TOOL],
        store=False,
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "high"},
    )
    history += [item.model_dump(exclude_none=True) for item in reply.output]
    calls = [item for item in reply.output if item.type == "function_call"]
    if not calls:
        return reply.output_text or "(empty)"
    save(history)
    history += [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": read_note(**json.loads(call.arguments)),
        }
        for call in calls
    ]
    return ""


run(ask, [*load(), {"role": "user", "content": PROMPT}])
