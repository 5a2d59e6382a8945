-- One row per session. Who may write to it is decided by epoch and token, in the transaction that writes.
CREATE SEQUENCE {schema}.session_numbers;

CREATE TABLE {schema}.sessions (
    number int8 PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    title text NOT NULL DEFAULT '',
    folded_title text NOT NULL DEFAULT '',
    model text NOT NULL DEFAULT '',
    directory text NOT NULL DEFAULT '',
    first_words text NOT NULL DEFAULT '',
    folded_first_words text NOT NULL DEFAULT '',
    turns int8 NOT NULL DEFAULT 0,
    replies int8 NOT NULL DEFAULT 0,
    failures int8 NOT NULL DEFAULT 0,
    created int8 NOT NULL,
    updated int8 NOT NULL,
    parent text COLLATE "C" NOT NULL DEFAULT '',
    parent_call text NOT NULL DEFAULT '',
    parent_seq int8 NOT NULL DEFAULT 0,
    last_seq int8 NOT NULL DEFAULT 0,
    last_at int8 NOT NULL DEFAULT 0,
    epoch int8 NOT NULL DEFAULT 0,
    token text NOT NULL DEFAULT '',
    host text NOT NULL DEFAULT '',
    pid int8 NOT NULL DEFAULT 0,
    born text NOT NULL DEFAULT '',
    held_since int8 NOT NULL DEFAULT 0,
    held_until int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 70);  -- an append changes its row: there is room for the next version on the same page

CREATE INDEX sessions_by_parent ON {schema}.sessions (parent) WHERE parent <> '';
CREATE INDEX sessions_by_use ON {schema}.sessions (updated DESC, number DESC);

-- The upper bits of a session's number are the week it began in, and so is its partition: what is too old goes with its
-- whole partition.
CREATE TABLE {schema}.entries (
    number int8 NOT NULL,
    seq int8 NOT NULL,
    at int8 NOT NULL,
    epoch int8 NOT NULL,
    -- Different for every append: a writer whose connection broke finds out whether its entries were written.
    write int8 NOT NULL,
    body bytea NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (number, seq)
) PARTITION BY RANGE (number);

-- What user and model wrote, without regard to case: a search reads a tenth of what it would in the entries.
CREATE TABLE {schema}.said (
    number int8 NOT NULL,
    words text NOT NULL
) PARTITION BY RANGE (number);
CREATE INDEX said_by_number ON {schema}.said (number);

-- Microseconds since 1970, by the clock of the database.
CREATE FUNCTION {schema}.clock() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8
$$;

CREATE FUNCTION {schema}.week_of(at int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT at / 604800000000
$$;

CREATE FUNCTION {schema}.add_session_partition(week int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
BEGIN
    IF to_regclass('{schema}.said_w' || week) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.partitions'));
    FOREACH kind IN ARRAY ARRAY['entries', 'said'] LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS {schema}.%I PARTITION OF {schema}.%I FOR VALUES FROM (%s) TO (%s)',
            kind || '_w' || week, kind, week << 40, (week + 1) << 40);
    END LOOP;
END $$;

SELECT {schema}.add_session_partition({schema}.week_of({schema}.clock()) + ahead) FROM generate_series(0, 1) AS ahead;

-- A new session with epoch 1; false if the id is taken by another. The same owner may ask again.
CREATE FUNCTION {schema}.create_session(
    new_id text, new_directory text, new_parent text, new_call text, new_seq int8,
    owner_host text, owner_pid int8, owner_token text, owner_born text, lease int8, began int8
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := {schema}.clock();
    created_at int8 := coalesce(began, now_at);
    week int8 := {schema}.week_of(created_at);
BEGIN
    PERFORM {schema}.add_session_partition(week);
    INSERT INTO {schema}.sessions (
        number, id, directory, parent, parent_call, parent_seq, created, updated, epoch, token, host, pid, born,
        held_since, held_until
    ) VALUES (
        (week << 40) + nextval('{schema}.session_numbers'), new_id, new_directory, new_parent, new_call, new_seq,
        created_at, created_at, 1, owner_token, owner_host, owner_pid, owner_born, now_at, now_at + lease
    ) ON CONFLICT (id) DO NOTHING;
    RETURN FOUND;
END $$;

-- The fenced append: the sequence number of the last entry, NULL if the lease is not the session's any more. What is said
-- about the list comes along; `listed` is whether any of it changes when the session was used last.
CREATE FUNCTION {schema}.append_entries(
    of_session text, of_epoch int8, of_token text, write_id int8, is_retried boolean, bodies bytea[], digests int8[],
    listed boolean, lease int8, new_title text, new_folded_title text, new_model text, more_turns int8,
    words text, folded_words text, more_replies int8, more_failures int8, texts text[],
    times int8[], used_at int8  -- of a session from elsewhere; NULL: now
) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
    of_number int8;
    until int8;
    now_at int8;
    written int8;
BEGIN
    IF is_retried THEN
        SELECT max(entries.seq) INTO written FROM {schema}.sessions JOIN {schema}.entries USING (number)
        WHERE sessions.id = of_session AND entries.seq > sessions.last_seq - 10000 AND entries.write = write_id;
        IF written IS NOT NULL THEN
            RETURN written;
        END IF;
    END IF;
    now_at := {schema}.clock();
    UPDATE {schema}.sessions SET
        last_seq = last_seq + cardinality(bodies),
        last_at = greatest(last_at, coalesce(times[cardinality(times)], now_at)),
        turns = turns + more_turns, replies = replies + more_replies, failures = failures + more_failures,
        title = coalesce(new_title, title), folded_title = coalesce(new_folded_title, folded_title),
        model = coalesce(nullif(new_model, ''), model),
        first_words = coalesce(nullif(first_words, ''), words),
        folded_first_words = coalesce(nullif(folded_first_words, ''), folded_words),
        updated = CASE WHEN listed THEN greatest(updated, coalesce(used_at, now_at)) ELSE updated END,
        held_until = CASE WHEN listed THEN now_at + lease ELSE held_until END
    WHERE id = of_session AND epoch = of_epoch AND token = of_token
    RETURNING number, last_seq, last_at INTO of_number, until, now_at;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.entries (number, seq, at, epoch, write, body, checksum)
    SELECT of_number, seq, at, of_epoch, write_id, body,
        substr(sha256(convert_to(concat_ws(' ', of_number, seq, at, of_epoch, digest), 'UTF8')), 1, 8)
    FROM (
        SELECT until - cardinality(bodies) + place AS seq, body, digest, coalesce(times[place], now_at) AS at
        FROM unnest(bodies, digests) WITH ORDINALITY AS given (body, digest, place)
    ) AS numbered;
    IF cardinality(texts) > 0 THEN
        INSERT INTO {schema}.said (number, words) SELECT of_number, unnest(texts);
    END IF;
    RETURN until;
END $$;

-- Drop the weeks of which every session was used last before `before`; how many sessions went with them.
CREATE FUNCTION {schema}.drop_old_sessions(before int8) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
    week int8;
    gone int8 := 0;
    dropped int8;
    now_at int8 := {schema}.clock();
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('{schema}.partitions')) THEN
        RETURN 0;  -- another node is at it
    END IF;
    FOR week IN
        SELECT substr(relname, 7)::int8 FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = '{schema}.said'::regclass AND substr(relname, 7)::int8 < {schema}.week_of(before)
        ORDER BY 1
    LOOP
        -- Whoever uses one of them now waits for us, and finds it gone.
        PERFORM 1 FROM {schema}.sessions WHERE number >= week << 40 AND number < (week + 1) << 40 FOR UPDATE;
        CONTINUE WHEN EXISTS (
            SELECT 1 FROM {schema}.sessions WHERE number >= week << 40 AND number < (week + 1) << 40
            AND (updated >= before OR (token <> '' AND held_until > now_at))
        );
        DELETE FROM {schema}.sessions WHERE number >= week << 40 AND number < (week + 1) << 40;
        GET DIAGNOSTICS dropped = ROW_COUNT;
        gone := gone + dropped;
        EXECUTE format('DROP TABLE {schema}.%I, {schema}.%I', 'entries_w' || week, 'said_w' || week);
    END LOOP;
    RETURN gone;
END $$;
