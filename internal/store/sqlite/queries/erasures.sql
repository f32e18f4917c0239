-- name: InsertErasure :exec
INSERT INTO erasures (org, erasure_id, user_id, after_session, sessions, created_at, finished_at)
VALUES (@org, @erasure_id, @user_id, '', 0, @created_at, 0);

-- name: Erasure :one
SELECT * FROM erasures WHERE org = @org AND erasure_id = @erasure_id;

-- The one that was asked for first and is not finished.
-- name: OpenErasure :one
SELECT * FROM erasures WHERE finished_at = 0 ORDER BY created_at LIMIT 1;

-- name: MoveErasure :exec
UPDATE erasures SET after_session = @after_session, sessions = sessions + @erased
WHERE org = @org AND erasure_id = @erasure_id AND finished_at = 0;

-- name: FinishErasure :one
UPDATE erasures SET finished_at = @finished_at
WHERE org = @org AND erasure_id = @erasure_id AND finished_at = 0
RETURNING *;

-- name: SweepErasures :exec
DELETE FROM erasures WHERE finished_at > 0 AND finished_at < @before;

-- The sessions of an organisation, in the order of their keys.
-- name: SessionsOfAfter :many
SELECT session_id, created_by FROM sessions
WHERE org = @org AND session_id > @session_id
ORDER BY session_id
LIMIT @size;

-- Where a user had a part in the session of another one, his name goes.
-- name: ForgetTurns :exec
UPDATE turns SET user_id = @anonymous WHERE org = @org AND session_id = @session_id AND user_id = @user_id;

-- name: ForgetModeChanges :exec
UPDATE mode_changes SET user_id = @anonymous WHERE org = @org AND session_id = @session_id AND user_id = @user_id;

-- name: ForgetDecisions :exec
UPDATE steps SET data = CAST(replace(CAST(data AS TEXT), CAST(@member AS TEXT), CAST(@replacement AS TEXT)) AS BLOB)
WHERE id IN (SELECT s.id FROM turns AS t
    JOIN steps AS s ON s.id > (t.number << 20) AND s.id < ((t.number + 1) << 20)
    WHERE t.org = @org AND t.session_id = @session_id AND s.kind = 'decided')
  AND instr(CAST(data AS TEXT), CAST(@member AS TEXT)) > 0;

-- name: ForgetWebhooks :exec
UPDATE webhooks SET created_by = @anonymous WHERE org = @org AND created_by = @user_id;
