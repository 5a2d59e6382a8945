"""Conversations brought from one provider or agent to another: converted as files, judged by the doctor, moved as sessions."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.interop.added_formats": "SessionFormat",
    "segue.interop.agent_sessions": "AgentSession WrittenSession newest_session read_session write_session",
    "segue.interop.agents.session_steps": "ModelReply Prompt StoredCall",
    "segue.interop.agents.session_file": "SessionPlan",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
