-- Makes the row when it is not there, and keeps all other writers of it waiting.
-- name: OpenSpent :one
INSERT INTO budget_spent (org, session_id, turn_id, period, tokens, cost, tool_calls, time, largest_tokens, largest_cost)
VALUES (@org, @session_id, @turn_id, @period, 0, 0, 0, 0, 0, 0)
ON CONFLICT (org, session_id, turn_id, period) DO UPDATE SET tokens = budget_spent.tokens
RETURNING *;

-- name: Spent :one
SELECT * FROM budget_spent
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND period = @period;

-- A row that was erased meanwhile stays erased.
-- name: AddSpent :exec
UPDATE budget_spent SET tokens = tokens + @tokens, cost = cost + @cost, tool_calls = tool_calls + @tool_calls, time = time + @time,
  largest_tokens = greatest(largest_tokens, @tokens), largest_cost = greatest(largest_cost, @cost)
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND period = @period;

-- What the calls under way of other turns may take.
-- name: Held :one
SELECT count(*) AS calls, CAST(coalesce(sum(tokens), 0) AS bigint) AS tokens, CAST(coalesce(sum(cost), 0) AS bigint) AS cost,
  CAST(coalesce(sum(time), 0) AS bigint) AS time
FROM budget_holds
WHERE org = @org AND until > @now AND NOT (session_id = @session_id AND turn_id = @turn_id);

-- name: Ticket :one
SELECT ticket FROM budget_holds WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id;

-- name: PutHold :exec
INSERT INTO budget_holds (org, session_id, turn_id, ticket, tokens, cost, time, until)
VALUES (@org, @session_id, @turn_id, @ticket, @tokens, @cost, @time, @until)
ON CONFLICT (org, session_id, turn_id) DO UPDATE
SET ticket = excluded.ticket, tokens = excluded.tokens, cost = excluded.cost, time = excluded.time, until = excluded.until;

-- name: TakeHold :execrows
DELETE FROM budget_holds WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND ticket = @ticket;

-- name: DropHold :exec
DELETE FROM budget_holds WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id;

-- name: EraseSessionSpent :exec
DELETE FROM budget_spent WHERE org = @org AND session_id = @session_id;

-- name: EraseSpent :exec
DELETE FROM budget_spent WHERE org = @org;

-- name: EraseHolds :exec
DELETE FROM budget_holds WHERE org = @org;
