-- What model calls have taken, and what those under way may still take. Nothing is written
-- here as long as no budget is configured. Costs are millionths of a unit, times
-- microseconds. Nothing refers to sessions and turns: what a turn has taken may be told
-- when its session is erased already.

-- +goose Up
CREATE TABLE budget_spent (
  org            text COLLATE "C" NOT NULL,
  session_id     text COLLATE "C" NOT NULL, -- empty for what is the whole organisation's
  turn_id        text COLLATE "C" NOT NULL, -- empty for what is the whole session's
  period         text COLLATE "C" NOT NULL, -- a day (2026-01-31) or a month (2026-01) in UTC; empty for all time
  tokens         bigint NOT NULL,
  cost           bigint NOT NULL,
  tool_calls     bigint NOT NULL,
  time           bigint NOT NULL,
  largest_tokens bigint NOT NULL, -- of one call
  largest_cost   bigint NOT NULL,
  PRIMARY KEY (org, session_id, turn_id, period)
) WITH (fillfactor = 80); -- its rows are updated with each call

-- One call at most is under way of a turn.
CREATE TABLE budget_holds (
  org        text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  turn_id    text COLLATE "C" NOT NULL,
  ticket     text   NOT NULL,
  tokens     bigint NOT NULL,
  cost       bigint NOT NULL,
  time       bigint NOT NULL,
  until      bigint NOT NULL,
  PRIMARY KEY (org, session_id, turn_id)
);
