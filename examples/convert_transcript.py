"""A history in one provider's format, broken by an interruption, as a request that another provider accepts.

Run: python examples/convert_transcript.py
"""

from __future__ import annotations

from segue import convert

CANCELLED = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "user", "content": "Compare the two config files."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_7Qw",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path": "a.toml"}'},
                },
                {
                    "id": "call_8Xz",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path": "b.to'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_7Qw", "content": "port = 8080"},
        {"role": "user", "content": "Never mind b, what is the port?"},
    ],
}

converted = convert(CANCELLED, to="anthropic", model="claude-opus-5-5")
print("repairs:", [repair.kind for repair in converted.repairs])
for message in converted.request["messages"]:
    blocks = message["content"]
    print(message["role"], blocks if isinstance(blocks, str) else [block["type"] for block in blocks])

# Prints:
# repairs: ['arguments_wrapped', 'call_closed']
# user Compare the two config files.
# assistant ['tool_use', 'tool_use']
# user ['tool_result', 'tool_result', 'text']
