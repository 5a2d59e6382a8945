# Written by python -m scripts.namespaces --write

from segue.sessions.entries import Adopted, AllowedCall, ApprovalAsked, ApprovalGiven, CallBegun, CallEnded, CallsScheduled, Compacted, DamagedEntry, Entry, Link, ModelReplied, NoteAdded, Record, Rewound, SessionStarted, SettingsChanged, Switched, ToolGrant, ToolsAnswered, TurnEnded, TurnResumed, UserSaid
from segue.sessions.approvals import CallAnswer, WaitingCall, WaitingCalls
from segue.sessions.entry_codec import EncodedEntry, decode_entry, encode_entry
from segue.sessions.journal import Journal, fork
from segue.sessions.errors import AnsweredError, fenced, session_exists, unknown_session
from segue.sessions.leases import Claim, Lease, Owner, active_owner, refuse_busy
from segue.sessions.listing import ListingChange, fold_text, is_shown, listing_change, update_info
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.postgres import PostgresStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import SessionInfo, Store

__all__ = [
    "Adopted",
    "AllowedCall",
    "AnsweredError",
    "ApprovalAsked",
    "ApprovalGiven",
    "CallAnswer",
    "CallBegun",
    "CallEnded",
    "CallsScheduled",
    "Claim",
    "Compacted",
    "DamagedEntry",
    "EncodedEntry",
    "Entry",
    "Journal",
    "JsonlStore",
    "Lease",
    "Link",
    "ListingChange",
    "MemoryStore",
    "ModelReplied",
    "NoteAdded",
    "Owner",
    "PostgresStore",
    "Record",
    "Rewound",
    "SQLiteStore",
    "SessionInfo",
    "SessionStarted",
    "SettingsChanged",
    "Store",
    "Switched",
    "ToolGrant",
    "ToolsAnswered",
    "TurnEnded",
    "TurnResumed",
    "UserSaid",
    "WaitingCall",
    "WaitingCalls",
    "active_owner",
    "decode_entry",
    "encode_entry",
    "fenced",
    "fold_text",
    "fork",
    "is_shown",
    "listing_change",
    "refuse_busy",
    "session_exists",
    "unknown_session",
    "update_info",
]
