-- Opens a turn, with its session when that is new: one statement, in which everything
-- hangs on whether the turn is admitted. The session must be as the turn expects it, and
-- free unless the turn queues. No row: it was not. Why Admission tells.
-- name: OpenTurn :one
WITH created AS (
  INSERT INTO sessions (org, session_id, created_by, mode, version, system_prompt, client_tools, agent_context,
    conversation_context, solution_context, concurrency, last_response_id, turns, created_at, updated_at, mode_entry)
  SELECT @org::text, @session_id::text, @created_by::text, @session_mode::text, 1, @system_prompt::bytea,
    sqlc.narg('client_tools')::bytea, @agent_context::text, @conversation_context::text, @new_solution_context::bytea,
    @concurrency::text, @new_last_response_id::bytea, 1, @session_created_at::bigint, @updated_at::bigint,
    coalesce(nullif(@mode_entry::text, ''), 'pending')
  WHERE @creates::boolean
  ON CONFLICT (org, session_id) DO NOTHING
  RETURNING turns
), audited AS (
  INSERT INTO audit (org, entry_id, at, action, user_id, role, credential, session_id, turn_id, subject, request_id, address, details)
  SELECT @org::text, @entry_id::text, @session_created_at::bigint, 'session.created', @audit_user::text, @role::text, @credential::text,
    @session_id::text, '', '', @request_id::text, @address::text, sqlc.narg('audit_details')::bytea
  FROM created
), admitted AS (
  UPDATE sessions AS s SET turns = s.turns + 1,
    solution_context = coalesce(sqlc.narg('solution_context')::bytea, s.solution_context),
    last_response_id = coalesce(sqlc.narg('last_response_id')::bytea, s.last_response_id),
    mode_entry = coalesce(nullif(@mode_entry::text, ''), s.mode_entry),
    updated_at = @updated_at::bigint
  WHERE s.org = @org::text AND s.session_id = @session_id::text AND NOT @creates::boolean AND s.version = @version::bigint
    AND (@queued::boolean OR NOT EXISTS (SELECT 1 FROM turns AS a
      WHERE a.org = s.org AND a.session_id = s.session_id AND a.state IN ('accepted', 'running', 'waiting') AND NOT a.queued)
    AND NOT EXISTS (SELECT 1 FROM turns AS w
      WHERE w.org = s.org AND w.session_id = s.session_id AND w.queued))
  RETURNING s.turns
), opened AS (
  INSERT INTO turns (org, session_id, turn_id, ordinal, user_id, state, queued, request, body_sha256, mode, tools, stream,
    response, fault, continuation_sha256, deadline, created_at, updated_at, steps, owner, epoch, lease_until)
  SELECT @org::text, @session_id::text, @turn_id::text, p.turns, @user_id::text, @state::text, @queued::boolean,
    sqlc.narg('request')::bytea, @body_sha256::text, @mode::text, sqlc.narg('tools')::bytea, sqlc.narg('stream')::boolean,
    sqlc.narg('response')::bytea, sqlc.narg('fault')::bytea, @continuation_sha256::text, @deadline::bigint,
    @created_at::bigint, @updated_at::bigint, cardinality(@numbers::bigint[]), @owner::text,
    CASE WHEN @owner::text = '' THEN 0 ELSE 1 END,
    CASE WHEN @owner::text = '' THEN 0 ELSE (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint END
  FROM (SELECT created.turns FROM created UNION ALL SELECT admitted.turns FROM admitted) AS p
  RETURNING ordinal
), journal AS (
  INSERT INTO steps (org, session_id, turn_id, n, kind, first_event, at, data, items, cuts)
  SELECT @org::text, @session_id::text, @turn_id::text, j.n, j.kind, j.first_event, j.at, j.data, j.items, j.cuts
  FROM opened, (SELECT unnest(@numbers::bigint[]) AS n, unnest(@kinds::text[]) AS kind,
    unnest(@first_events::bigint[]) AS first_event, unnest(@times::bigint[]) AS at,
    unnest(@data::bytea[]) AS data, unnest(@items::bytea[]) AS items, unnest(@cuts::bytea[]) AS cuts) AS j
), contents AS (
  INSERT INTO blobs (org, sha256, mime_type, data, created_at)
  SELECT @org::text, b.sha256, b.mime_type, b.data, @created_at::bigint
  FROM opened, (SELECT unnest(@blob_hashes::text[]) AS sha256, unnest(@blob_types::bytea[]) AS mime_type,
    unnest(@blob_data::bytea[]) AS data) AS b
  ON CONFLICT (org, sha256) DO NOTHING
), refs AS (
  INSERT INTO blob_refs (org, session_id, turn_id, sha256)
  SELECT @org::text, @session_id::text, @turn_id::text, r.sha256
  FROM opened, (SELECT unnest(@blob_hashes::text[]) AS sha256) AS r
)
SELECT ordinal FROM opened;

-- name: Turn :one
SELECT * FROM turns WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id;

-- name: Turns :many
SELECT * FROM turns
WHERE org = @org AND session_id = @session_id AND ordinal > 0 AND ordinal > @ordinal
ORDER BY ordinal
LIMIT @size;

-- Writes one transition, if the turn is where the writer thinks it is. All that decides
-- stands in the turn's row, but for the session's version, for which the session is
-- locked before. A turn that moves does not wait any more. 0: it was not there. Why
-- Position tells.
-- name: AppendSteps :one
WITH moved AS (
  UPDATE turns AS t SET
    state = coalesce(sqlc.narg('state')::text, t.state),
    queued = FALSE,
    mode = coalesce(sqlc.narg('mode')::text, t.mode),
    tools = coalesce(sqlc.narg('tools')::bytea, t.tools),
    response = coalesce(sqlc.narg('response')::bytea, t.response),
    fault = coalesce(sqlc.narg('fault')::bytea, t.fault),
    continuation_sha256 = coalesce(sqlc.narg('continuation_sha256')::text, t.continuation_sha256),
    deadline = coalesce(sqlc.narg('deadline')::bigint, t.deadline),
    updated_at = @updated_at::bigint,
    steps = t.steps + cardinality(@numbers::bigint[]),
    owner = CASE WHEN @claims::boolean THEN @owner::text WHEN @rests::boolean THEN '' ELSE t.owner END,
    epoch = CASE WHEN @claims::boolean OR @fences::boolean THEN t.epoch + 1 ELSE t.epoch END,
    lease_until = CASE WHEN @claims::boolean THEN (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
      WHEN @rests::boolean THEN 0 ELSE t.lease_until END
  WHERE t.org = @org::text AND t.session_id = @session_id::text AND t.turn_id = @turn_id::text
    AND t.epoch = @epoch::bigint AND (@writer::text = '' OR t.owner = @writer::text)
    AND t.state = ANY(@from_states::text[])
    AND (cardinality(@numbers::bigint[]) = 0 OR t.steps = @newest_step::bigint)
    AND (sqlc.narg('version')::bigint IS NULL OR EXISTS (SELECT 1 FROM sessions AS s
      WHERE s.org = t.org AND s.session_id = t.session_id AND s.version = sqlc.narg('version')::bigint))
    AND (NOT @claims::boolean OR t.owner IN ('', @owner::text) OR t.lease_until < (extract(epoch FROM now()) * 1000000)::bigint)
  RETURNING t.turn_id
), journal AS (
  INSERT INTO steps (org, session_id, turn_id, n, kind, first_event, at, data, items, cuts)
  SELECT @org::text, @session_id::text, @turn_id::text, j.n, j.kind, j.first_event, j.at, j.data, j.items, j.cuts
  FROM moved, (SELECT unnest(@numbers::bigint[]) AS n, unnest(@kinds::text[]) AS kind,
    unnest(@first_events::bigint[]) AS first_event, unnest(@times::bigint[]) AS at,
    unnest(@data::bytea[]) AS data, unnest(@items::bytea[]) AS items, unnest(@cuts::bytea[]) AS cuts) AS j
), latched AS (
  UPDATE sessions AS s SET last_response_id = coalesce(sqlc.narg('last_response_id')::bytea, s.last_response_id),
    mode_entry = coalesce(nullif(@mode_entry::text, ''), s.mode_entry),
    approved_tools = coalesce(sqlc.narg('approved_tools')::bytea, s.approved_tools), updated_at = @updated_at::bigint
  FROM moved
  WHERE s.org = @org::text AND s.session_id = @session_id::text AND @moves_session::boolean
)
SELECT count(*) FROM moved;

-- Where the turn stands, with what AppendSteps asks of its session.
-- name: Position :one
SELECT t.state, t.steps, t.epoch, s.version,
  (t.owner <> '' AND t.lease_until >= (extract(epoch FROM now()) * 1000000)::bigint)::boolean AS leased, t.owner,
  coalesce((SELECT a.turn_id FROM turns AS a
    WHERE a.org = t.org AND a.session_id = t.session_id AND a.state IN ('accepted', 'running', 'waiting') AND NOT a.queued
      AND a.turn_id <> t.turn_id), '')::text AS active
FROM turns AS t
JOIN sessions AS s ON s.org = t.org AND s.session_id = t.session_id
WHERE t.org = @org AND t.session_id = @session_id AND t.turn_id = @turn_id;

-- The sweeps. The first condition on the state names the index turns_active, which
-- holds a row per active turn and no others; turns_queued does so for those that wait.
-- name: Unfinished :many
SELECT org, session_id, turn_id FROM turns
WHERE state IN ('accepted', 'running', 'waiting') AND NOT queued AND state <> 'waiting'
ORDER BY created_at;

-- name: Expired :many
SELECT org, session_id, turn_id FROM turns
WHERE state IN ('accepted', 'running', 'waiting') AND NOT queued AND state = 'waiting' AND deadline > 0 AND deadline < @now::bigint
ORDER BY deadline
LIMIT @size;

-- name: ExpiredQueued :many
SELECT org, session_id, turn_id FROM turns
WHERE queued AND deadline > 0 AND deadline < @now::bigint
ORDER BY deadline
LIMIT @size;

-- name: NextQueued :one
SELECT * FROM turns
WHERE org = @org AND session_id = @session_id AND queued
ORDER BY ordinal
LIMIT 1;

-- Sessions in which turns wait and none is active.
-- name: IdleQueues :many
SELECT DISTINCT q.org, q.session_id FROM turns AS q
WHERE q.queued AND NOT EXISTS (SELECT 1 FROM turns AS a
  WHERE a.org = q.org AND a.session_id = q.session_id AND a.state IN ('accepted', 'running', 'waiting') AND NOT a.queued)
LIMIT @size;

-- name: CountQueued :one
SELECT count(*) FROM turns WHERE queued;

-- name: LastCompleted :one
SELECT * FROM turns
WHERE org = @org AND session_id = @session_id AND ordinal > 0 AND state = 'completed'
ORDER BY ordinal DESC
LIMIT 1;
