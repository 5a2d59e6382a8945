"""What the Anthropic SDK's clients of clouds share: a tool turn with thinking, streamed, then whole behind the results."""

from typing import Any

from session import DESCRIPTION, MODEL, PROMPT, SCHEMA, load, read_note, run, save

TOOL = {"name": "read_note", "description": DESCRIPTION, "input_schema": SCHEMA}


def take_turn(client: Any, thinking: dict[str, Any]) -> None:
    fixed = {"model": MODEL, "max_tokens": 4000, "tools": [TOOL], "thinking": thinking}

    def ask(history: list) -> str:
        if isinstance(history[-1]["content"], list):
            reply = client.messages.create(messages=history, **fixed)
        else:
            with client.messages.stream(messages=history, **fixed) as stream:
                reply = stream.get_final_message()
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in reply.content]
        history.append({"role": "assistant", "content": content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text") or "(empty)"
        save(history)
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": read_note(**call.input)}
            for call in calls
        ]
        history.append({"role": "user", "content": results})
        return ""

    run(ask, [*load(), {"role": "user", "content": PROMPT}])
