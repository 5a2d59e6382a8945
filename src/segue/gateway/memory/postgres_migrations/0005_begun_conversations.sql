-- A conversation is known while its first request runs, and used last while a later one does. `note_conversation` counts requests.
CREATE FUNCTION {schema}.note_request(
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
        (id, caller, client, door, asked, route, switched, requests, created, updated, session)
    VALUES (new_id, new_caller, new_client, new_door, new_asked, new_route, coalesce(chosen, ''), 0, now_at, now_at, new_session)
    ON CONFLICT (id) DO UPDATE SET updated = greatest(known.updated, excluded.updated)
    WHERE known.caller = excluded.caller;
END $$;
