-- A conversation belongs to the caller that it was noted for first: another caller's with the same id neither takes it over nor
-- comes under a switch that was made for it.
CREATE OR REPLACE FUNCTION {schema}.note_conversation(
    new_id text, new_caller text, new_client text, new_door text, new_asked text, new_route text, at int8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at int8 := coalesce(at, {schema}.memory_clock());
BEGIN
    SET LOCAL synchronous_commit = off;
    INSERT INTO {schema}.conversations AS known (id, caller, client, door, asked, route, created, updated)
    VALUES (new_id, new_caller, new_client, new_door, new_asked, new_route, now_at, now_at)
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, door = excluded.door, asked = excluded.asked,
        route = excluded.route, requests = known.requests + 1, updated = greatest(known.updated, excluded.updated)
    WHERE known.caller = excluded.caller;
END $$;
