-- name: InsertErasure :exec
INSERT INTO erasures (org, erasure_id, user_id, after_session, sessions, created_at, finished_at, lease_until)
VALUES (@org, @erasure_id, @user_id, '', 0, @created_at, 0, 0);

-- name: Erasure :one
SELECT * FROM erasures WHERE org = @org AND erasure_id = @erasure_id;

-- Claims the one that was asked for first, is not finished, and on which nobody works.
-- name: ClaimErasure :one
WITH free AS (
  SELECT f.org, f.erasure_id FROM erasures AS f
  WHERE f.finished_at = 0 AND f.lease_until < (extract(epoch FROM now()) * 1000000)::bigint
  ORDER BY f.created_at LIMIT 1
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE erasures AS e SET lease_until = (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
FROM free WHERE e.org = free.org AND e.erasure_id = free.erasure_id
RETURNING e.*;

-- name: MoveErasure :exec
UPDATE erasures SET after_session = @after_session, sessions = sessions + @erased::bigint,
  lease_until = (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
WHERE org = @org AND erasure_id = @erasure_id AND finished_at = 0;

-- name: FinishErasure :one
UPDATE erasures SET finished_at = @finished_at
WHERE org = @org AND erasure_id = @erasure_id AND finished_at = 0
RETURNING *;

-- name: SweepErasures :exec
DELETE FROM erasures WHERE finished_at > 0 AND finished_at < @before::bigint;

-- The sessions of an organisation, in the order of their keys.
-- name: SessionsOfAfter :many
SELECT session_id, created_by FROM sessions
WHERE org = @org AND session_id > @session_id::text
ORDER BY session_id
LIMIT @size;

-- Where a user had a part in the session of another one, his name goes.
-- name: ForgetTurns :exec
UPDATE turns SET user_id = @anonymous::text WHERE org = @org AND session_id = @session_id AND user_id = @user_id::text;

-- name: ForgetModeChanges :exec
UPDATE mode_changes SET user_id = @anonymous::text WHERE org = @org AND session_id = @session_id AND user_id = @user_id::text;

-- name: ForgetDecisions :exec
UPDATE steps SET data = convert_to(replace(convert_from(data, 'UTF8'), @member::text, @replacement::text), 'UTF8')
WHERE org = @org AND session_id = @session_id AND kind = 'decided' AND position(convert_to(@member::text, 'UTF8') IN data) > 0;

-- name: ForgetWebhooks :exec
UPDATE webhooks SET created_by = @anonymous::text WHERE org = @org AND created_by = @user_id::text;
