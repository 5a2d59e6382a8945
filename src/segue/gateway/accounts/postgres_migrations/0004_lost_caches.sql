-- What should have been read from providers' caches and was not: in tokens, and what they cost more for it.
ALTER TABLE {schema}.usage ADD COLUMN lost_tokens int8 NOT NULL DEFAULT 0, ADD COLUMN lost_micros int8 NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION {schema}.add_usage(new_row text, most int8, other text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added {schema}.usage := json_populate_record(NULL::{schema}.usage, new_row::json);
BEGIN
    -- A gateway of an earlier version does not know them.
    added.lost_tokens := coalesce(added.lost_tokens, 0);
    added.lost_micros := coalesce(added.lost_micros, 0);
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
        failovers = known.failovers + excluded.failovers,
        lost_tokens = known.lost_tokens + excluded.lost_tokens,
        lost_micros = known.lost_micros + excluded.lost_micros;
END $$;
