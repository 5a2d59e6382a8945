-- A request may have been handed to several providers: each has a row in the usage.
CREATE OR REPLACE FUNCTION {schema}.settle(all_ended text, most int8, other text, at float8) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    ended json := all_ended::json;
    now_at float8;
    found_here {schema}.settled[];
    one {schema}.settled;
    held {schema}.standings;
    added record;
BEGIN
    PERFORM {schema}.lock_standing(name)
    FROM (SELECT DISTINCT value->>'name' COLLATE "C" AS name FROM json_array_elements(ended) ORDER BY 1) AS names;
    now_at := coalesce(at, extract(epoch FROM clock_timestamp())::float8);
    WITH deleted AS (
        DELETE FROM {schema}.reservations AS known
        USING ROWS FROM (json_to_recordset(ended) AS (
            id text, name text, micros int8, reserved int8, given_back float8, usage json
        )) WITH ORDINALITY AS each
        WHERE known.id = each.id
        RETURNING each.name, each.micros, each.reserved, each.given_back, each.usage, known.spent, each.ordinality
    )
    SELECT array_agg(
        ROW(name, micros, reserved, given_back, usage, spent)::{schema}.settled ORDER BY name, ordinality
    ) INTO found_here FROM deleted;
    FOREACH one IN ARRAY coalesce(found_here, '{}') LOOP
        IF held.name IS DISTINCT FROM one.name THEN
            PERFORM {schema}.keep_standing(held);
            SELECT * INTO held FROM {schema}.standings WHERE name = one.name;
        END IF;
        held := {schema}.spend(held, one.micros - CASE WHEN one.was_spent THEN one.reserved ELSE 0 END, now_at);
        held.tokens_due := held.tokens_due - one.given_back;
    END LOOP;
    PERFORM {schema}.keep_standing(held);
    FOR added IN
        SELECT day, caller, asked, route, sum(requests) AS requests, sum(errors) AS errors,
            sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
            sum(reasoning_tokens) AS reasoning_tokens, sum(part.micros) AS micros, sum(unpriced) AS unpriced,
            sum(repairs) AS repairs, sum(losses) AS losses, sum(failovers) AS failovers
        FROM unnest(found_here) AS each
        CROSS JOIN LATERAL json_populate_recordset(
            NULL::{schema}.usage,
            -- One row alone comes from a gateway of the form before this one.
            CASE json_typeof(each.usage) WHEN 'array' THEN each.usage ELSE json_build_array(each.usage) END
        ) AS part
        WHERE part.day IS NOT NULL GROUP BY day, caller, asked, route ORDER BY day, caller, asked, route
    LOOP
        PERFORM {schema}.add_usage(row_to_json(added)::text, most, other);
    END LOOP;
END $$;

