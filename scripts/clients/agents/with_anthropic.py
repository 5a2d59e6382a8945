"""A tool turn with the Anthropic SDK, with thinking, streamed."""

from anthropic import Anthropic
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = Anthropic(base_url=URL, api_key=KEY)
TOOL = {"name": "read_note", "description": DESCRIPTION, "input_schema": SCHEMA}


def ask(history: list) -> str:
    with client.messages.stream(
        model=MODEL,
        max_tokens=4000,
        messages=history,
        tools=[TOOL],
        thinking={"type": "enabled", "budget_tokens": 2000},
    ) as stream:
        reply = stream.get_final_message()
    content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in reply.content]
    history.append({"role": "assistant", "content": content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        return "".join(block.text for block in reply.content if block.type == "text") or "(empty)"
    save(history)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": read_note(**call.input)} for call in calls
    ]
    history.append({"role": "user", "content": results})
    return ""


run(ask, [*load(), {"role": "user", "content": PROMPT}])
