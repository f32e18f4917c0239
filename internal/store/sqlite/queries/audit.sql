-- name: InsertAudit :exec
INSERT INTO audit (org, entry_id, at, action, user_id, role, credential, session_id, turn_id, subject, request_id, address, details)
VALUES (@org, @entry_id, @at, @action, @user_id, @role, @credential, @session_id, @turn_id, @subject, @request_id, @address, @details);

-- The newest first. Of the bounds the key has the time, so they are ids.
-- name: Audit :many
SELECT * FROM audit
WHERE org = @org AND entry_id >= @since AND entry_id < @before
  AND (CAST(@session_id AS TEXT) = '' OR session_id = @session_id)
  AND (CAST(@user_id AS TEXT) = '' OR user_id = @user_id)
  AND (CAST(@action AS TEXT) = '' OR action = @action)
ORDER BY entry_id DESC
LIMIT @size;

-- The retention of the log: first its horizon is moved, then what lies before it goes. The
-- horizon never goes back.
-- name: MoveAuditHorizon :exec
UPDATE audit_horizon SET before_at = @before_at WHERE one = 1 AND before_at < @before_at;

-- The next organisation that has entries.
-- name: NextAuditOrg :one
SELECT org FROM audit WHERE org > @after ORDER BY org LIMIT 1;

-- name: TrimAudit :execrows
DELETE FROM audit
WHERE audit.org = @org AND audit.entry_id IN (SELECT old.entry_id FROM audit AS old
  WHERE old.org = @org AND old.entry_id < @before ORDER BY old.entry_id LIMIT @size);
