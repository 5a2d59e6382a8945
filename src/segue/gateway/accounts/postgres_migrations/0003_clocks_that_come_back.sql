-- The day that a clock came from is no new one when the clock is right again.
ALTER TABLE {schema}.standings ADD COLUMN set_back_from text NOT NULL DEFAULT '';  -- the day of which it is, since it was set back

CREATE OR REPLACE FUNCTION {schema}.keep_standing(held {schema}.standings) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {schema}.standings SET requests_due = held.requests_due, tokens_due = held.tokens_due, day = held.day,
        day_spent = held.day_spent, month = held.month, month_spent = held.month_spent, seen = held.seen,
        set_back_from = held.set_back_from
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
        held.set_back_from := greatest(held.day COLLATE "C", held.set_back_from COLLATE "C");
        held.day := today;
        held.month := left(today, 7);
    ELSIF held.day COLLATE "C" < today THEN
        IF held.set_back_from <> today THEN
            held.day_spent := 0;
        END IF;
        IF left(today, 7) NOT IN (held.month, left(held.set_back_from, 7)) THEN
            held.month_spent := 0;
        END IF;
        held.day := today;
        held.month := left(today, 7);
        held.set_back_from := '';
    END IF;
    held.day_spent := greatest(0, held.day_spent + micros);
    held.month_spent := greatest(0, held.month_spent + micros);
    RETURN held;
END $$;
