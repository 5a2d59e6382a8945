-- One row per session. Who may write to it is decided by epoch and token, in the transaction that writes.
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    directory TEXT NOT NULL DEFAULT '',
    first_words TEXT NOT NULL DEFAULT '',
    turns INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    parent_call TEXT NOT NULL DEFAULT '',
    parent_seq INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    token TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL DEFAULT 0,
    born TEXT NOT NULL DEFAULT '',
    held_since REAL NOT NULL DEFAULT 0,
    held_until REAL NOT NULL DEFAULT 0
);

CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent <> '';

-- One tree and no index beside it: an append writes one page. `place` is the session's number and, in its lower 32 bits,
-- the sequence number within it.
CREATE TABLE entries (
    place INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL
);

-- What user and model said, without regard to case: a search reads a tenth of what it would in the entries. There is
-- no index: a search reads all of it, and every append would pay for the rare delete.
CREATE TABLE said (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    words TEXT NOT NULL
);
