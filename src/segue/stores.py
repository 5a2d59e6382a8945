"""Where sessions are kept: the stores, and what those who write one of their own need."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.sessions.entries": (
        "Adopted AllowedCall ApprovalAsked ApprovalGiven CallBegun CallEnded CallsScheduled Compacted DamagedEntry Entry Link ModelReplied NoteAdded "
        "Record Rewound SessionStarted SettingsChanged Switched ToolGrant ToolsAnswered TurnEnded TurnResumed UserSaid"
    ),
    "segue.sessions.approvals": "CallAnswer WaitingCall WaitingCalls",
    "segue.sessions.entry_codec": "EncodedEntry decode_entry encode_entry",
    "segue.sessions.journal": "Journal fork",
    "segue.sessions.errors": "AnsweredError fenced session_exists unknown_session",
    "segue.sessions.leases": "Claim Lease Owner active_owner refuse_busy",
    "segue.sessions.listing": "ListingChange fold_text is_shown listing_change update_info",
    "segue.sessions.stores.jsonl": "JsonlStore",
    "segue.sessions.stores.memory": "MemoryStore",
    "segue.sessions.stores.postgres": "PostgresStore",
    "segue.sessions.stores.sqlite": "SQLiteStore",
    "segue.sessions.stores.store": "SessionInfo Store",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
