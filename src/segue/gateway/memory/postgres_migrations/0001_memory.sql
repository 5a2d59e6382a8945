-- Encrypted records under digests. Both tables have a partition for every four days: what was not used for long enough
-- goes with its partition. A record that is used moves to the newest one.
CREATE SEQUENCE {schema}.record_numbers;

CREATE TABLE {schema}.records (
    period int8 NOT NULL,
    number int8 NOT NULL,
    used int8 NOT NULL,
    keys bytea[] NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (number, period)
) PARTITION BY RANGE (period);

CREATE TABLE {schema}.record_keys (
    period int8 NOT NULL,
    key bytea NOT NULL,
    number int8 NOT NULL,
    PRIMARY KEY (key, period)
) PARTITION BY RANGE (period);

CREATE TABLE {schema}.conversations (
    id text COLLATE "C" PRIMARY KEY,
    caller text NOT NULL,
    client text NOT NULL,
    door text NOT NULL,
    asked text NOT NULL,
    route text NOT NULL,
    switched text NOT NULL DEFAULT '',
    requests int8 NOT NULL DEFAULT 1,
    created int8 NOT NULL,
    updated int8 NOT NULL
) WITH (fillfactor = 50);  -- every request changes its row; without an index on the time that stays on its page

-- A digest made with the key of the installation: nodes with another key could read nothing.
CREATE TABLE {schema}.installation (key_check bytea PRIMARY KEY);

CREATE FUNCTION {schema}.memory_clock() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8
$$;

CREATE FUNCTION {schema}.period_of(at int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT at / 345600000000
$$;

CREATE FUNCTION {schema}.add_memory_partition(wanted int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
BEGIN
    IF to_regclass('{schema}.record_keys_p' || wanted) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.memory_partitions'));
    FOREACH kind IN ARRAY ARRAY['records', 'record_keys'] LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS {schema}.%I PARTITION OF {schema}.%I FOR VALUES FROM (%s) TO (%s)',
            kind || '_p' || wanted, kind, wanted, wanted + 1);
    END LOOP;
END $$;

-- A commit does not wait for the disk: a crash of the database may cost the last moments, never an older reply.
CREATE FUNCTION {schema}.write_record(new_keys bytea[], new_body bytea, at int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
    now_in int8 := {schema}.period_of(now_at);
    new_number int8 := nextval('{schema}.record_numbers');
BEGIN
    SET LOCAL synchronous_commit = off;
    PERFORM {schema}.add_memory_partition(now_in);
    INSERT INTO {schema}.records (period, number, used, keys, body) VALUES (now_in, new_number, now_at, new_keys, new_body);
    INSERT INTO {schema}.record_keys (period, key, number)
    SELECT DISTINCT now_in, given, new_number FROM unnest(new_keys) AS given ORDER BY given
    ON CONFLICT (key, period) DO UPDATE SET number = excluded.number;
END $$;

CREATE FUNCTION {schema}.read_records(wanted bytea[], at int8, keep int8)
RETURNS TABLE (found_key bytea, found_body bytea, found_number int8, found_period int8, found_used int8)
LANGUAGE plpgsql AS $$
DECLARE
    since int8 := coalesce(at, {schema}.memory_clock()) - keep;
BEGIN
    RETURN QUERY SELECT DISTINCT ON (named.key) named.key, records.body, records.number, records.period, records.used
    FROM {schema}.record_keys AS named
    JOIN {schema}.records ON records.number = named.number AND records.period = named.period
    WHERE named.key = ANY (wanted) AND records.used > since
    ORDER BY named.key, named.number DESC, named.period DESC;
END $$;

-- Somebody used these records: their time is kept, in the newest partition.
CREATE FUNCTION {schema}.touch_records(numbers int8[], periods int8[], at int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
    now_in int8 := {schema}.period_of(now_at);
BEGIN
    SET LOCAL synchronous_commit = off;
    PERFORM {schema}.add_memory_partition(now_in);
    UPDATE {schema}.records SET used = now_at FROM unnest(numbers, periods) AS given (number, period)
    WHERE records.number = given.number AND records.period = given.period AND given.period = now_in;
    INSERT INTO {schema}.records (period, number, used, keys, body)
    SELECT now_in, records.number, now_at, records.keys, records.body
    FROM {schema}.records JOIN unnest(numbers, periods) AS given (number, period)
    ON records.number = given.number AND records.period = given.period AND given.period < now_in
    ON CONFLICT DO NOTHING;
    INSERT INTO {schema}.record_keys (period, key, number)
    SELECT DISTINCT ON (key) now_in, key, records.number
    FROM {schema}.records JOIN unnest(numbers, periods) AS given (number, period)
    ON records.number = given.number AND records.period = now_in AND given.period < now_in
    CROSS JOIN unnest(records.keys) AS key ORDER BY key, records.number DESC
    ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION {schema}.delete_records(unwanted bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    doomed int8[];
    their_keys bytea[];
BEGIN
    SELECT array_agg(DISTINCT number) INTO doomed FROM {schema}.record_keys WHERE key = ANY (unwanted);
    SELECT array_agg(DISTINCT key) INTO their_keys
    FROM {schema}.records CROSS JOIN unnest(keys) AS key WHERE number = ANY (doomed);
    DELETE FROM {schema}.record_keys WHERE key = ANY (their_keys) AND number = ANY (doomed);
    DELETE FROM {schema}.records WHERE number = ANY (doomed);
END $$;

CREATE FUNCTION {schema}.drop_old_records(at int8, keep int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    since int8 := coalesce(at, {schema}.memory_clock()) - keep;
    old int8;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('{schema}.memory_partitions')) THEN
        RETURN;  -- another node is at it
    END IF;
    FOR old IN SELECT period FROM {schema}.memory_partitions() AS period LOOP
        IF old + 1 <= {schema}.period_of(since) THEN
            EXECUTE format('DROP TABLE {schema}.%I, {schema}.%I', 'records_p' || old, 'record_keys_p' || old);
        END IF;
    END LOOP;
    DELETE FROM {schema}.conversations WHERE updated <= since;
END $$;

CREATE FUNCTION {schema}.memory_partitions() RETURNS SETOF int8 LANGUAGE sql STABLE AS $$
    SELECT substr(relname, 14)::int8 FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = '{schema}.record_keys'::regclass ORDER BY 1
$$;

-- Too much: the oldest partitions go whole, and of the first that need not go, those unused the longest.
CREATE FUNCTION {schema}.drop_surplus_records(most_bytes int8, most_records int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    old int8;
    held_bytes int8;
    held_records int8;
    its_bytes int8;
    its_records int8;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('{schema}.memory_partitions')) THEN
        RETURN;
    END IF;
    SELECT coalesce(sum(octet_length(body)), 0), count(*) INTO held_bytes, held_records FROM {schema}.records;
    IF held_bytes <= most_bytes AND held_records <= most_records THEN
        RETURN;
    END IF;
    most_bytes := most_bytes * 9 / 10;
    most_records := most_records * 9 / 10;
    FOR old IN SELECT period FROM {schema}.memory_partitions() AS period LOOP
        EXIT WHEN held_bytes <= most_bytes AND held_records <= most_records;
        SELECT coalesce(sum(octet_length(body)), 0), count(*) INTO its_bytes, its_records
        FROM {schema}.records WHERE period = old;
        IF held_bytes - its_bytes >= most_bytes OR held_records - its_records >= most_records THEN
            EXECUTE format('DROP TABLE {schema}.%I, {schema}.%I', 'records_p' || old, 'record_keys_p' || old);
            held_bytes := held_bytes - its_bytes;
            held_records := held_records - its_records;
            CONTINUE;
        END IF;
        WITH doomed AS (
            DELETE FROM {schema}.records WHERE period = old AND number IN (
                SELECT number FROM (
                    SELECT number, row_number() OVER use AS place,
                        sum(octet_length(body)) OVER use - octet_length(body) AS before
                    FROM {schema}.records WHERE period = old WINDOW use AS (ORDER BY used, number)
                ) AS ordered
                WHERE held_bytes - before > most_bytes OR held_records - place + 1 > most_records
            ) RETURNING number, keys
        )
        DELETE FROM {schema}.record_keys USING doomed CROSS JOIN unnest(doomed.keys) AS doomed_key
        WHERE period = old AND key = doomed_key AND record_keys.number = doomed.number;
        EXIT;
    END LOOP;
END $$;

CREATE FUNCTION {schema}.note_conversation(
    new_id text, new_caller text, new_client text, new_door text, new_asked text, new_route text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
BEGIN
    SET LOCAL synchronous_commit = off;
    INSERT INTO {schema}.conversations AS known (id, caller, client, door, asked, route, created, updated)
    VALUES (new_id, new_caller, new_client, new_door, new_asked, new_route, now_at, now_at)
    ON CONFLICT (id) DO UPDATE SET caller = excluded.caller, client = excluded.client, door = excluded.door,
        asked = excluded.asked, route = excluded.route, requests = known.requests + 1,
        updated = greatest(known.updated, excluded.updated);
END $$;

-- A reply or a conversation or both: null where there is none.
CREATE FUNCTION {schema}.write_memory(
    new_keys bytea[], new_body bytea, new_id text, new_caller text, new_client text, new_door text, new_asked text,
    new_route text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF new_keys IS NOT NULL THEN
        PERFORM {schema}.write_record(new_keys, new_body, at);
    END IF;
    IF new_id IS NOT NULL THEN
        PERFORM {schema}.note_conversation(new_id, new_caller, new_client, new_door, new_asked, new_route, at);
    END IF;
END $$;

CREATE FUNCTION {schema}.read_conversation(wanted text, at int8, keep int8) RETURNS SETOF {schema}.conversations
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM {schema}.conversations WHERE id = wanted AND updated > coalesce(at, {schema}.memory_clock()) - keep
$$;
