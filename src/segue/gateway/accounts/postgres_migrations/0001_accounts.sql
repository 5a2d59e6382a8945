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

-- Which additions to the usage were made: one that is repeated after a lost connection counts once.
CREATE TABLE {schema}.usage_batches (id text PRIMARY KEY, taken float8 NOT NULL);
