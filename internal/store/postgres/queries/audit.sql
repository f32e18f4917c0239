-- name: InsertAudit :exec
INSERT INTO audit (org, entry_id, at, action, user_id, role, credential, session_id, turn_id, subject, request_id, address, details)
VALUES (@org, @entry_id, @at, @action, @user_id, @role, @credential, @session_id, @turn_id, @subject, @request_id, @address, @details);

-- The newest first. Of the bounds the key has the time, so they are ids.
-- name: Audit :many
SELECT * FROM audit
WHERE org = @org AND entry_id >= @since::text AND entry_id < @before::text
  AND (@session_id::text = '' OR session_id = @session_id::text)
  AND (@user_id::text = '' OR user_id = @user_id::text)
  AND (@action::text = '' OR action = @action::text)
ORDER BY entry_id DESC
LIMIT @size;

-- The retention of the log: first its horizon is moved, then what lies before it goes. The
-- horizon never goes back.
-- name: MoveAuditHorizon :exec
UPDATE audit_horizon SET before_at = @before_at::bigint WHERE one = 1 AND before_at < @before_at::bigint;

-- The next organisation that has entries.
-- name: NextAuditOrg :one
SELECT org FROM audit WHERE org > @after::text ORDER BY org LIMIT 1;

-- name: TrimAudit :execrows
WITH old AS (
  SELECT o.org, o.entry_id FROM audit AS o
  WHERE o.org = @org AND o.entry_id < @before::text
  ORDER BY o.entry_id LIMIT @size
  FOR UPDATE SKIP LOCKED
)
DELETE FROM audit AS a USING old WHERE a.org = old.org AND a.entry_id = old.entry_id;

-- For a writer that does not know whether its own is there.
-- name: HasAudit :one
SELECT EXISTS (SELECT 1 FROM audit WHERE org = @org AND entry_id = @entry_id);
