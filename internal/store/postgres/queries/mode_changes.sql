-- name: InsertModeChange :one
INSERT INTO mode_changes (org, session_id, sequence, previous, mode, reason, at, user_id, actor, turn_id, call_id, branch, approval_id)
VALUES (@org, @session_id,
  (SELECT coalesce(max(m.sequence), 0) + 1 FROM mode_changes AS m WHERE m.org = @org AND m.session_id = @session_id),
  @previous, @mode, @reason, @at, @user_id, @actor, @turn_id, @call_id, @branch, @approval_id)
RETURNING *;

-- name: ModeChangeByCall :one
SELECT * FROM mode_changes
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND call_id = @call_id AND call_id <> '';

-- name: ModeChanges :many
SELECT * FROM mode_changes
WHERE org = @org AND session_id = @session_id AND sequence > @sequence
ORDER BY sequence
LIMIT @size;

-- The changes of this moment, for a writer that does not know whether its own is there.
-- name: ModeChangesAt :many
SELECT * FROM mode_changes
WHERE org = @org AND session_id = @session_id AND at = @at
ORDER BY sequence;
