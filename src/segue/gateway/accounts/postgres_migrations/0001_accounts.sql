-- Callers, what they have used as far as limits need it, what their running requests hold, and their usage by day.
CREATE TABLE {schema}.account_revision (number int8 NOT NULL);
INSERT INTO {schema}.account_revision VALUES (0);

CREATE FUNCTION {schema}.revision_of_accounts() RETURNS int8 LANGUAGE sql STABLE AS $$
    SELECT number FROM {schema}.account_revision
$$;

CREATE TABLE {schema}.accounts (name text COLLATE "C" PRIMARY KEY, account text NOT NULL);

CREATE TABLE {schema}.standings (
    name text COLLATE "C" PRIMARY KEY,
    requests_due float8 NOT NULL DEFAULT 0,
    tokens_due float8 NOT NULL DEFAULT 0,
    day text NOT NULL DEFAULT '',
    day_spent int8 NOT NULL DEFAULT 0,
    month text NOT NULL DEFAULT '',
    month_spent int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 50);  -- every request changes its row

CREATE TABLE {schema}.reservations (
    id text PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    micros int8 NOT NULL,
    expires float8 NOT NULL,
    spent bool NOT NULL DEFAULT false  -- it expired and counts as spent; a late end corrects that
);
CREATE INDEX reservations_by_name ON {schema}.reservations (name, expires);

CREATE TABLE {schema}.usage (
    day text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    asked text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    requests int8 NOT NULL,
    errors int8 NOT NULL,
    input_tokens int8 NOT NULL,
    output_tokens int8 NOT NULL,
    cached_tokens int8 NOT NULL,
    reasoning_tokens int8 NOT NULL,
    micros int8 NOT NULL,
    unpriced int8 NOT NULL,
    repairs int8 NOT NULL,
    losses int8 NOT NULL,
    failovers int8 NOT NULL,
    PRIMARY KEY (day, caller, asked, route)
);

-- Several gateways count for one account: its row is locked until the transaction ends, which is one call of `admit` or `settle`.
-- Counting does not wait for the disk.
CREATE FUNCTION {schema}.lock_standing(account text) RETURNS {schema}.standings LANGUAGE plpgsql AS $$
DECLARE
    held {schema}.standings;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO held FROM {schema}.standings WHERE name = account FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO {schema}.standings (name) VALUES (account) ON CONFLICT DO NOTHING;
        SELECT * INTO held FROM {schema}.standings WHERE name = account FOR UPDATE;
    END IF;
    RETURN held;
END $$;

-- With so much more spent in this day and month, and nothing spent in one that has just begun. Days are those of UTC.
CREATE FUNCTION {schema}.spend(held {schema}.standings, micros int8, now_at float8) RETURNS {schema}.standings
LANGUAGE plpgsql STABLE AS $$
DECLARE
    today text := to_char(to_timestamp(now_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD');
BEGIN
    IF held.day <> today THEN
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

CREATE FUNCTION {schema}.keep_standing(held {schema}.standings) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.standings SET requests_due = held.requests_due, tokens_due = held.tokens_due, day = held.day,
        day_spent = held.day_spent, month = held.month, month_spent = held.month_spent
    WHERE name = held.name;
END $$;

-- Seconds until so much may pass, and 0 if it may: the generic cell rate algorithm.
CREATE FUNCTION {schema}.rate_wait(due float8, now_at float8, seconds float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    wait float8 := least(greatest(due, now_at) + seconds - now_at - 60, greatest(due, now_at) - now_at);
BEGIN
    RETURN CASE WHEN wait <= 1e-9 THEN 0 ELSE wait END;
END $$;

-- How many whole parts of so many seconds may pass at once.
CREATE FUNCTION {schema}.rate_parts(due float8, now_at float8, seconds float8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN floor((60 - greatest(0, due - now_at)) / seconds)::int8;
END $$;

-- The rules are those of `admission.admit` and `admit_more` in Python, which the other stores use, and are tested against
-- them. `most_`: the limits, null where there is none. `more`: requests beside the first, of which all together take at most
-- one part in `share` of what is left. One that is repeated after a lost connection finds its reservations and reserves nothing.
-- Reservations come and go by the thousand between two vacuums; of all scans only that of an index skips the dead ones.
CREATE FUNCTION {schema}.admit(
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
    SELECT count(*) FILTER (WHERE expires > now_at AND NOT is_own),
        coalesce(sum(micros) FILTER (WHERE expires > now_at AND NOT is_own), 0),
        coalesce(sum(micros) FILTER (WHERE expires <= now_at AND NOT is_own AND NOT spent), 0),
        count(*) FILTER (WHERE is_own)
    INTO running, running_micros, expired_micros, known
    FROM (
        SELECT *, id = new_id OR starts_with(id, new_id || '.') AS is_own FROM {schema}.reservations WHERE name = account
    ) AS reservations_of_account;
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
                WHERE name = account AND expires <= now_at AND NOT spent;
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

-- Requests that have ended; those whose reservation is not there have been settled before. Rows are locked in one order on all
-- nodes, so that none waits for another in a circle. Each account's row is written once, and each place of the usage.
CREATE TYPE {schema}.settled AS (
    name text, micros int8, reserved int8, given_back float8, usage json, was_spent bool
);

CREATE FUNCTION {schema}.settle(all_ended text, most int8, other text, at float8) RETURNS void LANGUAGE plpgsql
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
        CROSS JOIN LATERAL json_populate_record(NULL::{schema}.usage, each.usage) AS part
        WHERE part.day IS NOT NULL GROUP BY day, caller, asked, route ORDER BY day, caller, asked, route
    LOOP
        PERFORM {schema}.add_usage(row_to_json(added)::text, most, other);
    END LOOP;
END $$;

-- A row of a place that is known, or of at most so many places of a caller's day; beyond them the name is another.
CREATE FUNCTION {schema}.add_usage(new_row text, most int8, other text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added {schema}.usage := json_populate_record(NULL::{schema}.usage, new_row::json);
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM {schema}.usage
        WHERE (day, caller, asked, route) = (added.day, added.caller, added.asked, added.route)
    ) AND (SELECT count(*) FROM {schema}.usage WHERE day = added.day AND caller = added.caller) >= most THEN
        added.asked := other;
    END IF;
    INSERT INTO {schema}.usage AS known SELECT added.*
    ON CONFLICT (day, caller, asked, route) DO UPDATE SET
        requests = known.requests + excluded.requests,
        errors = known.errors + excluded.errors,
        input_tokens = known.input_tokens + excluded.input_tokens,
        output_tokens = known.output_tokens + excluded.output_tokens,
        cached_tokens = known.cached_tokens + excluded.cached_tokens,
        reasoning_tokens = known.reasoning_tokens + excluded.reasoning_tokens,
        micros = known.micros + excluded.micros,
        unpriced = known.unpriced + excluded.unpriced,
        repairs = known.repairs + excluded.repairs,
        losses = known.losses + excluded.losses,
        failovers = known.failovers + excluded.failovers;
END $$;

-- Which additions to the usage were made: one that is repeated after a lost connection counts once.
CREATE TABLE {schema}.usage_batches (id text PRIMARY KEY, taken float8 NOT NULL);
