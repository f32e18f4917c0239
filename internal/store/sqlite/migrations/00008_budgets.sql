-- What model calls have taken, and what those under way may still take. Nothing is written
-- here as long as no budget is configured. Costs are millionths of a unit, times
-- microseconds. Nothing refers to sessions and turns: the first call of a turn may be made
-- before the turn is written (decision 63).

-- +goose Up
CREATE TABLE budget_spent (
  org            TEXT    NOT NULL,
  session_id     TEXT    NOT NULL, -- empty for what is the whole organisation's
  turn_id        TEXT    NOT NULL, -- empty for what is the whole session's
  period         TEXT    NOT NULL, -- a day (2026-01-31) or a month (2026-01) in UTC; empty for all time
  tokens         INTEGER NOT NULL,
  cost           INTEGER NOT NULL,
  tool_calls     INTEGER NOT NULL,
  time           INTEGER NOT NULL,
  largest_tokens INTEGER NOT NULL, -- of one call
  largest_cost   INTEGER NOT NULL,
  PRIMARY KEY (org, session_id, turn_id, period)
) STRICT, WITHOUT ROWID;

-- One call at most is under way of a turn.
CREATE TABLE budget_holds (
  org        TEXT    NOT NULL,
  session_id TEXT    NOT NULL,
  turn_id    TEXT    NOT NULL,
  ticket     TEXT    NOT NULL,
  tokens     INTEGER NOT NULL,
  cost       INTEGER NOT NULL,
  time       INTEGER NOT NULL,
  until      INTEGER NOT NULL,
  PRIMARY KEY (org, session_id, turn_id)
) STRICT, WITHOUT ROWID;
