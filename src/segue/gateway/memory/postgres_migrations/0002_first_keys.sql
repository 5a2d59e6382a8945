-- Keys that lead to the first record that was written under them: by these and by the key of the last one it is known
-- whether several conversations wrote at one place.
CREATE FUNCTION {schema}.write_record(new_keys bytea[], first_keys bytea[], new_body bytea, at int8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
    now_in int8 := {schema}.period_of(now_at);
    new_number int8 := nextval('{schema}.record_numbers');
    first_of bytea[];
BEGIN
    SET LOCAL synchronous_commit = off;
    PERFORM {schema}.add_memory_partition(now_in);
    -- Only those that lead here are kept with the record: it takes its keys along when it is used.
    WITH added AS (
        INSERT INTO {schema}.record_keys (period, key, number)
        SELECT DISTINCT now_in, given, new_number FROM unnest(first_keys) AS given
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.record_keys AS known WHERE known.key = given) ORDER BY given
        ON CONFLICT (key, period) DO NOTHING RETURNING key
    )
    SELECT array_agg(key) INTO first_of FROM added;
    INSERT INTO {schema}.records (period, number, used, keys, body)
    VALUES (now_in, new_number, now_at, new_keys || coalesce(first_of, ARRAY[]::bytea[]), new_body);
    INSERT INTO {schema}.record_keys (period, key, number)
    SELECT DISTINCT now_in, given, new_number FROM unnest(new_keys) AS given ORDER BY given
    ON CONFLICT (key, period) DO UPDATE SET number = excluded.number;
END $$;

CREATE FUNCTION {schema}.write_memory(
    new_keys bytea[], first_keys bytea[], new_body bytea, new_id text, new_caller text, new_client text, new_door text,
    new_asked text, new_route text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF new_keys IS NOT NULL THEN
        PERFORM {schema}.write_record(new_keys, first_keys, new_body, at);
    END IF;
    IF new_id IS NOT NULL THEN
        PERFORM {schema}.note_conversation(new_id, new_caller, new_client, new_door, new_asked, new_route, at);
    END IF;
END $$;

-- A gateway of the version before may still run.
CREATE OR REPLACE FUNCTION {schema}.write_memory(
    new_keys bytea[], new_body bytea, new_id text, new_caller text, new_client text, new_door text, new_asked text,
    new_route text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.write_memory(
        new_keys, ARRAY[]::bytea[], new_body, new_id, new_caller, new_client, new_door, new_asked, new_route, at);
END $$;

DROP FUNCTION {schema}.write_record(bytea[], bytea, int8);
