-- By a clock that was set back nobody gets their money again, and nobody waits for the moments that it came from.
ALTER TABLE {schema}.standings ADD COLUMN seen float8 NOT NULL DEFAULT 0;  -- the latest moment at which it was looked at

CREATE OR REPLACE FUNCTION {schema}.keep_standing(held {schema}.standings) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.standings SET requests_due = held.requests_due, tokens_due = held.tokens_due, day = held.day,
        day_spent = held.day_spent, month = held.month, month_spent = held.month_spent, seen = held.seen
    WHERE name = held.name;
END $$;

-- With so much more spent in this day and month, and nothing spent in one that has just begun. Days are those of UTC. The rules
-- are those of `admission.current` in Python.
CREATE OR REPLACE FUNCTION {schema}.spend(held {schema}.standings, micros int8, now_at float8) RETURNS {schema}.standings
LANGUAGE plpgsql STABLE AS $$
DECLARE
    today text COLLATE "C" := to_char(to_timestamp(now_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD');
    tomorrow text COLLATE "C" := to_char(to_timestamp(now_at + 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD');
    back float8 := held.seen - now_at;
BEGIN
    IF back > 60 THEN
        held.requests_due := held.requests_due - back;
        held.tokens_due := held.tokens_due - back;
        held.seen := now_at;
    ELSE
        held.seen := greatest(held.seen, now_at);
    END IF;
    IF held.day COLLATE "C" > tomorrow THEN
        held.day := today;
        held.month := left(today, 7);
    ELSIF held.day COLLATE "C" < today THEN
        held.day := today;
        held.day_spent := 0;
        IF held.month <> left(today, 7) THEN
            held.month := left(today, 7);
            held.month_spent := 0;
        END IF;
    END IF;
    held.day_spent := greatest(0, held.day_spent + micros);
    held.month_spent := greatest(0, held.month_spent + micros);
    RETURN held;
END $$;

-- What would hold for longer than twice the usual time was reserved by a clock that has been set back since.
CREATE OR REPLACE FUNCTION {schema}.admit(
    account text, new_id text, new_tokens int8, new_micros int8, hold float8, at float8,
    most_concurrent int8, most_day int8, most_month int8, most_requests int8, most_tokens int8,
    more int8, share int8
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    held {schema}.standings := {schema}.lock_standing(account);
    now_at float8 := coalesce(at, extract(epoch FROM clock_timestamp())::float8);  -- not before the lock was free
    running int8;
    running_micros int8;
    expired_micros int8;
    known int8;
    left_micros int8;
    refused text;
    wait float8 := 0;
BEGIN
    SELECT count(*) FILTER (WHERE holds AND NOT is_own),
        coalesce(sum(micros) FILTER (WHERE holds AND NOT is_own), 0),
        coalesce(sum(micros) FILTER (WHERE NOT holds AND NOT is_own AND NOT spent), 0),
        count(*) FILTER (WHERE is_own)
    INTO running, running_micros, expired_micros, known
    FROM (
        SELECT *, id = new_id OR starts_with(id, new_id || '.') AS is_own,
            expires > now_at AND expires <= now_at + 2 * hold AS holds
        FROM {schema}.reservations WHERE name = account
    ) AS reservations_of_account;
    -- Kept also if the request is refused: else time would stand still until the moment that the clock came from.
    IF held.seen - now_at > 60 OR held.day COLLATE "C" > to_char(to_timestamp(now_at + 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD') THEN
        held := {schema}.spend(held, 0, now_at);
        PERFORM {schema}.keep_standing(held);
    END IF;
    IF known > 0 THEN
        more := known - 1;
    ELSE
        held := {schema}.spend(held, expired_micros, now_at);
        IF running >= most_concurrent THEN
            refused := 'concurrent';
        END IF;
        IF refused IS NULL AND most_day IS NOT NULL THEN
            left_micros := most_day - held.day_spent - running_micros;
            IF left_micros <= 0 OR (running > 0 AND new_micros > left_micros) THEN
                refused := CASE WHEN held.day_spent < most_day THEN 'reserved' ELSE 'day' END;
            END IF;
        END IF;
        IF refused IS NULL AND most_month IS NOT NULL THEN
            left_micros := most_month - held.month_spent - running_micros;
            IF left_micros <= 0 OR (running > 0 AND new_micros > left_micros) THEN
                refused := CASE WHEN held.month_spent < most_month THEN 'reserved' ELSE 'month' END;
            END IF;
        END IF;
        IF refused IS NULL AND most_requests IS NOT NULL THEN
            wait := {schema}.rate_wait(held.requests_due, now_at, 60.0::float8 / most_requests);
            IF wait > 0 THEN
                refused := 'requests';
            END IF;
        END IF;
        IF refused IS NULL AND most_tokens IS NOT NULL THEN
            wait := {schema}.rate_wait(held.tokens_due, now_at, new_tokens * 60.0::float8 / most_tokens);
            IF wait > 0 THEN
                refused := 'tokens';
            END IF;
        END IF;
        IF refused IS NULL THEN
            IF most_requests IS NOT NULL THEN
                held.requests_due := greatest(held.requests_due, now_at) + 60.0::float8 / most_requests;
            END IF;
            IF most_tokens IS NOT NULL THEN
                held.tokens_due := greatest(held.tokens_due, now_at) + new_tokens * 60.0::float8 / most_tokens;
            END IF;
            IF more > 0 THEN
                more := least(
                    more,
                    (most_concurrent - running - 1) / share,
                    (most_day - held.day_spent - running_micros - new_micros) / nullif(share * new_micros, 0),
                    (most_month - held.month_spent - running_micros - new_micros) / nullif(share * new_micros, 0),
                    {schema}.rate_parts(held.requests_due, now_at, share * 60.0::float8 / most_requests),
                    {schema}.rate_parts(held.tokens_due, now_at, nullif(share * new_tokens, 0) * 60.0::float8 / most_tokens));
                more := greatest(more, 0);
                held.requests_due := held.requests_due + coalesce(more * 60.0::float8 / most_requests, 0);
                held.tokens_due := held.tokens_due + coalesce(more * new_tokens * 60.0::float8 / most_tokens, 0);
            END IF;
            PERFORM {schema}.keep_standing(held);
            IF expired_micros > 0 THEN
                UPDATE {schema}.reservations SET spent = true
                WHERE name = account AND NOT (expires > now_at AND expires <= now_at + 2 * hold) AND NOT spent;
            END IF;
            INSERT INTO {schema}.reservations (id, name, micros, expires)
            SELECT CASE number WHEN 0 THEN new_id ELSE new_id || '.' || number END, account, new_micros, now_at + hold
            FROM generate_series(0, more) AS number;
        END IF;
    END IF;
    RETURN json_build_object(
        'now', now_at,
        'standing', row_to_json(held),
        'reserved', json_build_object(
            'requests', running, 'micros', running_micros, 'expired', expired_micros),
        'refused', refused,
        'wait', wait,
        'more', more);
END $$;

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

