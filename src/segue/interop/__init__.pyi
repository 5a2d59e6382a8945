# Written by python -m scripts.namespaces --write

from segue.interop.added_formats import SessionFormat
from segue.interop.agent_sessions import AgentSession, WrittenSession, newest_session, read_session, write_session
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall
from segue.interop.agents.session_file import SessionPlan

__all__ = [
    "AgentSession",
    "ModelReply",
    "Prompt",
    "SessionFormat",
    "SessionPlan",
    "StoredCall",
    "WrittenSession",
    "newest_session",
    "read_session",
    "write_session",
]
