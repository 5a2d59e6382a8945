-- Conversations of one session of a program: an operator may switch all of them, with those that begin in it later.
ALTER TABLE {schema}.conversations ADD COLUMN session text NOT NULL DEFAULT '';

CREATE TABLE {schema}.session_switches (
    session text COLLATE "C",
    caller text COLLATE "C",
    model text NOT NULL,
    updated int8 NOT NULL,
    PRIMARY KEY (session, caller)
);

CREATE FUNCTION {schema}.switch_session(wanted text, its_caller text, new_model text, at int8) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.conversations SET switched = new_model WHERE session = wanted AND caller = its_caller;
    INSERT INTO {schema}.session_switches VALUES (wanted, its_caller, new_model, coalesce(at, {schema}.memory_clock()))
    ON CONFLICT (session, caller) DO UPDATE SET model = excluded.model, updated = excluded.updated;
END $$;

CREATE FUNCTION {schema}.note_conversation(
    new_id text, new_caller text, new_client text, new_door text, new_asked text, new_route text, new_session text,
    at int8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
    chosen text;
BEGIN
    SET LOCAL synchronous_commit = off;
    SELECT model INTO chosen FROM {schema}.session_switches AS moved
    WHERE new_session <> '' AND moved.session = new_session AND moved.caller = new_caller;
    INSERT INTO {schema}.conversations AS known
        (id, caller, client, door, asked, route, switched, created, updated, session)
    VALUES (new_id, new_caller, new_client, new_door, new_asked, new_route, coalesce(chosen, ''), now_at, now_at, new_session)
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, door = excluded.door, asked = excluded.asked,
        route = excluded.route, requests = known.requests + 1, updated = greatest(known.updated, excluded.updated),
        session = excluded.session
    WHERE known.caller = excluded.caller;
END $$;

CREATE FUNCTION {schema}.write_memory(
    new_keys bytea[], first_keys bytea[], new_body bytea, new_id text, new_caller text, new_client text, new_door text,
    new_asked text, new_route text, new_session text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF new_keys IS NOT NULL THEN
        PERFORM {schema}.write_record(new_keys, first_keys, new_body, at);
    END IF;
    IF new_id IS NOT NULL THEN
        PERFORM {schema}.note_conversation(
            new_id, new_caller, new_client, new_door, new_asked, new_route, new_session, at);
    END IF;
END $$;

-- Those of a gateway of the version before, which may still run, stay: they name no session.
CREATE OR REPLACE FUNCTION {schema}.drop_old_records(at int8, keep int8) RETURNS void LANGUAGE plpgsql AS $$
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
    DELETE FROM {schema}.session_switches WHERE updated <= since;
END $$;
