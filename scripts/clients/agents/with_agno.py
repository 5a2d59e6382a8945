"""A tool turn with Agno, over Chat Completions; its own store holds the session. Address and key come from the environment."""

from agno.agent import Agent
from agno.db.json import JsonDb
from agno.models.openai import OpenAIChat
from session import MODEL, PROMPT, read_note

agent = Agent(
    model=OpenAIChat(id=MODEL),
    tools=[read_note],
    db=JsonDb("agno"),
    session_id="notes",
    add_history_to_context=True,
    num_history_runs=20,
    telemetry=False,
)
print(agent.run(PROMPT).content)
