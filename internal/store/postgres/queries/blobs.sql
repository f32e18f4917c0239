-- name: Blob :one
SELECT data FROM blobs WHERE org = @org AND sha256 = @sha256;

-- The contents that a turn has brought.
-- name: TurnBlobs :many
SELECT b.sha256, b.data
FROM blob_refs AS r
JOIN blobs AS b ON b.org = r.org AND b.sha256 = r.sha256
WHERE r.org = @org AND r.session_id = @session_id AND r.turn_id = @turn_id;
