-- The checksum of an entry's place, time, epoch and body. NULL: written before there were checksums.
ALTER TABLE entries ADD COLUMN checksum INTEGER;

-- What tells a session that was used from one that was opened in vain, or whose only question failed.
ALTER TABLE sessions ADD COLUMN replies INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET replies = turns;
