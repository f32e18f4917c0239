-- name: InsertSession :execrows
INSERT INTO sessions (org, session_id, created_by, mode, version, system_prompt, client_tools, agent_context,
  conversation_context, solution_context, concurrency, last_response_id, turns, created_at, updated_at)
VALUES (@org, @session_id, @created_by, @mode, 1, @system_prompt, @client_tools, @agent_context,
  @conversation_context, @solution_context, @concurrency, @last_response_id, 0, @created_at, @updated_at)
ON CONFLICT (org, session_id) DO NOTHING;

-- name: Session :one
SELECT * FROM sessions WHERE org = @org AND session_id = @session_id;

-- name: Sessions :many
SELECT * FROM sessions
WHERE org = @org AND created_at <= @created_at AND (created_at < @created_at OR session_id < @session_id)
ORDER BY created_at DESC, session_id DESC
LIMIT @size;

-- name: SetTools :execrows
UPDATE sessions SET client_tools = @client_tools, version = version + 1, updated_at = @updated_at
WHERE org = @org AND session_id = @session_id;

-- name: SetMode :one
UPDATE sessions SET mode = @mode, version = version + 1, updated_at = @updated_at
WHERE org = @org AND session_id = @session_id
RETURNING *;

-- name: CountTurn :one
UPDATE sessions SET turns = turns + 1, solution_context = coalesce(sqlc.narg('solution_context'), solution_context),
  updated_at = @updated_at
WHERE org = @org AND session_id = @session_id
RETURNING *;

-- name: SetLastResponse :exec
UPDATE sessions SET last_response_id = @last_response_id, updated_at = @updated_at
WHERE org = @org AND session_id = @session_id;

-- name: DeleteSession :execrows
DELETE FROM sessions WHERE org = @org AND session_id = @session_id;
