"""A tool turn with pydantic-ai, over Chat Completions. A turn that was broken off leaves its calls without results."""

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from session import HISTORY, KEY, MODEL, PROMPT, URL, read_note

provider = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
agent = Agent(OpenAIChatModel(MODEL, provider=provider))


@agent.tool(name="read_note")
def read(ctx, path: str, seconds: int = 0) -> str:
    """Read a note, after so many seconds."""
    HISTORY.write_bytes(ModelMessagesTypeAdapter.dump_json(ctx.messages))
    return read_note(path, seconds)


known = ModelMessagesTypeAdapter.validate_json(HISTORY.read_bytes()) if HISTORY.exists() else []
if known and getattr(known[-1], "tool_calls", None):
    # The framework takes no prompt behind open calls; a program of its user puts it there.
    known.append(ModelRequest(parts=[UserPromptPart(PROMPT)]))
    done = agent.run_sync(message_history=known)
else:
    done = agent.run_sync(PROMPT, message_history=known)
HISTORY.write_bytes(done.all_messages_json())
print(done.output)
