-- name: InsertSession :execrows
INSERT INTO sessions (org, session_id, created_by, mode, version, system_prompt, client_tools, agent_context,
  conversation_context, solution_context, concurrency, last_response_id, turns, created_at, updated_at,
  parent_session, parent_turn)
VALUES (@org, @session_id, @created_by, @mode, 1, @system_prompt, @client_tools, @agent_context,
  @conversation_context, @solution_context, @concurrency, @last_response_id, @turns, @created_at, @created_at,
  @parent_session, @parent_turn)
ON CONFLICT (org, session_id) DO NOTHING;

-- name: Session :one
SELECT * FROM sessions WHERE org = @org AND session_id = @session_id;

-- Keeps all other writers of the session waiting. A statement behind it sees everything
-- that those before it have written, which one that waits by itself would not.
-- name: LockSession :exec
SELECT FROM sessions WHERE org = @org AND session_id = @session_id FOR NO KEY UPDATE;

-- name: LockedSession :one
SELECT * FROM sessions WHERE org = @org AND session_id = @session_id FOR NO KEY UPDATE;

-- name: Sessions :many
SELECT * FROM sessions
WHERE org = @org AND created_at > 0 AND created_at <= @created_at AND (created_at < @created_at OR session_id < @session_id)
ORDER BY created_at DESC, session_id DESC
LIMIT @size;

-- name: SessionsOfUser :many
SELECT * FROM sessions
WHERE org = @org AND created_by = @created_by AND created_at > 0 AND created_at <= @created_at AND (created_at < @created_at OR session_id < @session_id)
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
  coalesce((SELECT a.turn_id FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting') AND NOT a.queued), '')::text AS active,
  EXISTS (SELECT 1 FROM turns AS w
    WHERE w.org = s.org AND w.session_id = s.session_id AND w.queued) AS awaited
FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id;

-- The same with the whole session, for readers: one statement, so that it is one moment.
-- name: Standing :one
SELECT sqlc.embed(s),
  EXISTS (SELECT 1 FROM turns AS t
    WHERE t.org = s.org AND t.session_id = s.session_id AND t.turn_id = @turn_id) AS known,
  coalesce((SELECT a.turn_id FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting') AND NOT a.queued), '')::text AS active,
  (SELECT count(*) FROM turns AS w
    WHERE w.org = s.org AND w.session_id = s.session_id AND w.queued) AS queued
FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id;

-- Erases a session with everything under it, and the contents that nobody else uses, and
-- says so in the audit log.
-- name: EraseSession :one
WITH refs AS (
  DELETE FROM blob_refs AS r WHERE r.org = @org AND r.session_id = @session_id
  RETURNING r.sha256
), contents AS (
  DELETE FROM blobs AS b
  WHERE b.org = @org AND b.sha256 IN (SELECT refs.sha256 FROM refs)
    AND NOT EXISTS (SELECT 1 FROM blob_refs AS theirs
      WHERE theirs.org = b.org AND theirs.sha256 = b.sha256 AND theirs.session_id <> @session_id)
), erased AS (
  DELETE FROM sessions AS s WHERE s.org = @org AND s.session_id = @session_id
  RETURNING s.session_id
), audited AS (
  INSERT INTO audit (org, entry_id, at, action, user_id, role, credential, session_id, turn_id, subject, request_id, address, details)
  SELECT @org, @entry_id::text, @at::bigint, 'session.erased', @user_id::text, @role::text, @credential::text,
    erased.session_id, '', '', @request_id::text, @address::text, sqlc.narg('details')::bytea
  FROM erased
)
SELECT count(*) FROM erased;

-- name: SessionsOf :many
SELECT session_id FROM sessions WHERE org = @org LIMIT @size;

-- The sessions of everybody, in the order of their keys.
-- name: SessionsAfter :many
SELECT org, session_id, updated_at FROM sessions
WHERE (org, session_id) > (@org::text, @session_id::text)
ORDER BY org, session_id
LIMIT @size;

-- Whether the session or its latest turn has moved since, or a turn of it is active.
-- name: Stirred :one
SELECT count(*) FROM sessions AS s
WHERE s.org = @org AND s.session_id = @session_id AND (s.updated_at >= @before::bigint
  OR EXISTS (SELECT 1 FROM turns AS a
    WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting'))
  OR EXISTS (SELECT 1 FROM turns AS t
    WHERE t.org = s.org AND t.session_id = s.session_id AND t.ordinal > 0 AND t.ordinal = s.turns AND t.updated_at >= @before::bigint));

-- How many sessions there are, counted up to so many.
-- name: CountSessions :one
SELECT count(*) FROM (SELECT 1 FROM sessions WHERE org = @org LIMIT @most) AS counted;
