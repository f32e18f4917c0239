-- name: InsertSession :execrows
INSERT INTO sessions (org, session_id, created_by, mode, version, system_prompt, client_tools, agent_context,
  conversation_context, solution_context, concurrency, last_response_id, turns, created_at, updated_at,
  parent_session, parent_turn)
VALUES (@org, @session_id, @created_by, @mode, 1, @system_prompt, @client_tools, @agent_context,
  @conversation_context, @solution_context, @concurrency, @last_response_id, @turns, @created_at, @updated_at,
  @parent_session, @parent_turn)
ON CONFLICT (org, session_id) DO NOTHING;

-- name: Session :one
SELECT * FROM sessions WHERE org = @org AND session_id = @session_id;

-- name: Sessions :many
SELECT * FROM sessions
WHERE org = @org AND created_at <= @created_at AND (created_at < @created_at OR session_id < @session_id)
ORDER BY created_at DESC, session_id DESC
LIMIT @size;

-- name: SessionsOfUser :many
SELECT * FROM sessions
WHERE org = @org AND created_by = @created_by AND created_at <= @created_at AND (created_at < @created_at OR session_id < @session_id)
ORDER BY created_at DESC, session_id DESC
LIMIT @size;

-- name: SetTools :execrows
UPDATE sessions SET client_tools = @client_tools, version = version + 1, updated_at = @updated_at
WHERE org = @org AND session_id = @session_id;

-- name: SetMode :one
UPDATE sessions SET mode = @mode, mode_entry = 'pending', version = version + 1, updated_at = @updated_at
WHERE org = @org AND session_id = @session_id
RETURNING *;

-- What a new turn meets: the session, itself and the active turn, each if it is there.
-- name: Admission :one
SELECT s.version,
  EXISTS (SELECT 1 FROM turns AS t
    WHERE t.org = s.org AND t.session_id = s.session_id AND t.turn_id = @turn_id) AS known,
  CAST(coalesce((SELECT a.turn_id FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting') AND a.queued = 0), '') AS TEXT) AS active,
  EXISTS (SELECT 1 FROM turns AS w
    WHERE w.org = s.org AND w.session_id = s.session_id AND w.queued = 1) AS awaited
FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id;

-- The same with the whole session, for readers: one statement, so that it is one moment.
-- name: Standing :one
SELECT sqlc.embed(s),
  EXISTS (SELECT 1 FROM turns AS t
    WHERE t.org = s.org AND t.session_id = s.session_id AND t.turn_id = @turn_id) AS known,
  CAST(coalesce((SELECT a.turn_id FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting') AND a.queued = 0), '') AS TEXT) AS active,
  (SELECT count(*) FROM turns AS w
    WHERE w.org = s.org AND w.session_id = s.session_id AND w.queued = 1) AS queued
FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id;

-- Counts a turn that is admitted, and no other: the session is as the turn expects it,
-- and free unless the turn queues. Why one is not Admission tells. It returns nothing: with
-- RETURNING SQLite would keep a copy of the page in case the statement fails halfway.
-- name: Admit :execrows
UPDATE sessions SET turns = turns + 1, solution_context = coalesce(sqlc.narg('solution_context'), solution_context),
  last_response_id = coalesce(sqlc.narg('last_response_id'), last_response_id),
  mode_entry = coalesce(nullif(CAST(@mode_entry AS TEXT), ''), mode_entry), updated_at = @updated_at
WHERE sessions.org = @org AND sessions.session_id = @session_id AND sessions.version = @version
  AND (CAST(@queues AS INTEGER) OR NOT EXISTS (SELECT 1 FROM turns AS a
    WHERE a.org = sessions.org AND a.session_id = sessions.session_id AND a.state IN ('accepted', 'running', 'waiting') AND a.queued = 0)
  AND NOT EXISTS (SELECT 1 FROM turns AS w
    WHERE w.org = sessions.org AND w.session_id = sessions.session_id AND w.queued = 1));

-- What a transition of a turn moves in its session; NULL leaves it.
-- name: MoveSession :exec
UPDATE sessions SET last_response_id = coalesce(sqlc.narg('last_response_id'), last_response_id),
  mode_entry = coalesce(nullif(CAST(@mode_entry AS TEXT), ''), mode_entry),
  approved_tools = coalesce(sqlc.narg('approved_tools'), approved_tools), updated_at = @updated_at
WHERE org = @org AND session_id = @session_id;

-- name: DeleteSession :execrows
DELETE FROM sessions WHERE org = @org AND session_id = @session_id;

-- name: SessionsOf :many
SELECT session_id FROM sessions WHERE org = @org LIMIT @size;

-- The sessions of everybody, in the order of their keys.
-- name: SessionsAfter :many
SELECT org, session_id, updated_at FROM sessions
WHERE (org, session_id) > (@org, @session_id)
ORDER BY org, session_id
LIMIT @size;

-- How often the session and its latest turn have moved since, and how many of its
-- turns are active: 0 when it is idle.
-- name: Stirred :one
SELECT count(*) FROM sessions AS s
WHERE s.org = @org AND s.session_id = @session_id AND (s.updated_at >= @before
  OR EXISTS (SELECT 1 FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting'))
  OR EXISTS (SELECT 1 FROM turns AS t
    WHERE t.org = s.org AND t.session_id = s.session_id AND t.ordinal = s.turns AND t.updated_at >= @before));

-- How many sessions there are, counted up to so many.
-- name: CountSessions :one
SELECT count(*) FROM (SELECT 1 FROM sessions WHERE org = @org LIMIT @most) AS counted;
