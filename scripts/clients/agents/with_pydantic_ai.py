"""A tool turn with pydantic-ai: `python with_pydantic_ai.py MODEL PROMPT`."""

import os
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def read_note(path: str) -> str:
    """Read a note."""
    return Path(path).read_text()


provider = OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
agent = Agent(OpenAIChatModel(sys.argv[1], provider=provider), tools=[read_note])
print(agent.run_sync(sys.argv[2]).output)
