-- Callers, what they have used as far as limits need it, what their running requests hold, and their usage by day.
CREATE TABLE {schema}.account_revision (number int8 NOT NULL);
INSERT INTO {schema}.account_revision VALUES (0);

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

-- Several gateways count for one account: its row stays locked until the transaction ends. One that stalls in between is
-- cut off by the database, so that the others wait for seconds at most. Counting does not wait for the disk.
CREATE FUNCTION {schema}.lock_standing(account text, own text, at float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now_at float8;
    held {schema}.standings;
    result text;
BEGIN
    SET LOCAL synchronous_commit = off;
    SET LOCAL idle_in_transaction_session_timeout = '5s';
    SELECT * INTO held FROM {schema}.standings WHERE name = account FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO {schema}.standings (name) VALUES (account) ON CONFLICT DO NOTHING;
        SELECT * INTO held FROM {schema}.standings WHERE name = account FOR UPDATE;
    END IF;
    now_at := coalesce(at, extract(epoch FROM clock_timestamp())::float8);  -- not before the lock was free
    SELECT json_build_object(
        'now', now_at,
        'standing', row_to_json(held),
        'reserved', json_build_object(
            'requests', count(*) FILTER (WHERE expires > now_at AND id <> own),
            'micros', coalesce(sum(micros) FILTER (WHERE expires > now_at AND id <> own), 0),
            'expired', coalesce(sum(micros) FILTER (WHERE expires <= now_at AND id <> own AND NOT spent), 0)),
        'own_spent', bool_or(spent) FILTER (WHERE id = own))
    INTO result FROM {schema}.reservations WHERE name = account;
    RETURN result;
END $$;

CREATE FUNCTION {schema}.keep_standing(
    account text, new_requests_due float8, new_tokens_due float8, new_day text, new_day_spent int8, new_month text,
    new_month_spent int8
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.standings SET requests_due = new_requests_due, tokens_due = new_tokens_due, day = new_day,
        day_spent = new_day_spent, month = new_month, month_spent = new_month_spent
    WHERE name = account;
END $$;

-- What had expired until `spent_until` counts as spent from now on.
CREATE FUNCTION {schema}.reserve(account text, new_id text, new_micros int8, new_expires float8, spent_until float8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF spent_until IS NOT NULL THEN
        UPDATE {schema}.reservations SET spent = true
        WHERE name = account AND expires <= spent_until AND NOT spent;
    END IF;
    INSERT INTO {schema}.reservations (id, name, micros, expires)
    VALUES (new_id, account, new_micros, new_expires);
END $$;

CREATE FUNCTION {schema}.end_reservation(ended text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.reservations WHERE id = ended;
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
