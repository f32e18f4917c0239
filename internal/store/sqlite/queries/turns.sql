-- The ordinal is the session's count, in which Admit has counted the turn. The result tells
-- the turn's number, under which its steps are kept, and affects no row when the turn is there already.
-- name: InsertTurn :execresult
INSERT INTO turns (org, session_id, turn_id, ordinal, user_id, state, request, body_sha256, mode, tools, stream,
  response, fault, continuation_sha256, deadline, created_at, updated_at, queued, tools_sha256)
VALUES (@org, @session_id, @turn_id,
  (SELECT s.turns FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id),
  @user_id, @state, @request, @body_sha256, @mode, @tools, @stream,
  @response, @fault, @continuation_sha256, @deadline, @created_at, @updated_at, @queued, @tools_sha256)
ON CONFLICT (org, session_id, turn_id) DO NOTHING;

-- A turn comes with the text of its session that its tools are, if they are one.
-- name: Turn :one
SELECT sqlc.embed(t), x.data AS text
FROM turns AS t
LEFT JOIN session_texts AS x ON x.org = t.org AND x.session_id = t.session_id AND x.sha256 = t.tools_sha256
WHERE t.org = @org AND t.session_id = @session_id AND t.turn_id = @turn_id;

-- name: Turns :many
SELECT sqlc.embed(t), x.data AS text
FROM turns AS t
LEFT JOIN session_texts AS x ON x.org = t.org AND x.session_id = t.session_id AND x.sha256 = t.tools_sha256
WHERE t.org = @org AND t.session_id = @session_id AND t.ordinal > @ordinal
ORDER BY t.ordinal
LIMIT @size;

-- Where the turn stands: its number, its state and its newest step.
-- name: Position :one
SELECT t.number, t.state, CAST(coalesce((SELECT max(s.id) FROM steps AS s
  WHERE s.id > (t.number << 20) AND s.id < ((t.number + 1) << 20)), 0) & 1048575 AS INTEGER) AS newest_step
FROM turns AS t WHERE t.org = @org AND t.session_id = @session_id AND t.turn_id = @turn_id;

-- The condition on the state makes a late writer lose, whatever it has read. A turn that
-- moves does not wait any more.
-- name: MoveTurn :execrows
UPDATE turns SET state = @state, queued = 0,
  mode = coalesce(nullif(CAST(@mode AS TEXT), ''), mode),
  tools = coalesce(sqlc.narg('tools'), tools),
  tools_sha256 = CASE WHEN sqlc.narg('tools') IS NULL THEN tools_sha256 END,
  response = coalesce(sqlc.narg('response'), response),
  fault = coalesce(sqlc.narg('fault'), fault),
  continuation_sha256 = coalesce(sqlc.narg('continuation_sha256'), continuation_sha256),
  deadline = coalesce(sqlc.narg('deadline'), deadline),
  updated_at = @updated_at
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND state = @from_state;

-- The sweeps. The first condition on the state names the index turns_active, which
-- holds a row per active turn and no others; turns_queued does so for those that wait.
-- name: Unfinished :many
SELECT org, session_id, turn_id FROM turns
WHERE state IN ('accepted', 'running', 'waiting') AND queued = 0 AND state <> 'waiting'
ORDER BY created_at;

-- name: Expired :many
SELECT org, session_id, turn_id FROM turns
WHERE state IN ('accepted', 'running', 'waiting') AND queued = 0 AND state = 'waiting' AND deadline > 0 AND deadline < @now
ORDER BY deadline
LIMIT @size;

-- name: ExpiredQueued :many
SELECT org, session_id, turn_id FROM turns
WHERE queued = 1 AND deadline > 0 AND deadline < @now
ORDER BY deadline
LIMIT @size;

-- name: NextQueued :one
SELECT sqlc.embed(t), x.data AS text
FROM turns AS t
LEFT JOIN session_texts AS x ON x.org = t.org AND x.session_id = t.session_id AND x.sha256 = t.tools_sha256
WHERE t.org = @org AND t.session_id = @session_id AND t.queued = 1
ORDER BY t.ordinal
LIMIT 1;

-- Sessions in which turns wait and none is active.
-- name: IdleQueues :many
SELECT DISTINCT q.org, q.session_id FROM turns AS q
WHERE q.queued = 1 AND NOT EXISTS (SELECT 1 FROM turns AS a
  WHERE a.org = q.org AND a.session_id = q.session_id AND a.state IN ('accepted', 'running', 'waiting') AND a.queued = 0)
LIMIT @size;

-- name: CountQueued :one
SELECT count(*) FROM turns WHERE queued = 1;

-- name: LastCompleted :one
SELECT sqlc.embed(t), x.data AS text
FROM turns AS t
LEFT JOIN session_texts AS x ON x.org = t.org AND x.session_id = t.session_id AND x.sha256 = t.tools_sha256
WHERE t.org = @org AND t.session_id = @session_id AND t.state = 'completed'
ORDER BY t.ordinal DESC
LIMIT 1;
