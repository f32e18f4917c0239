-- name: InsertBlob :exec
INSERT INTO blobs (org, sha256, mime_type, data, created_at)
VALUES (@org, @sha256, @mime_type, @data, @created_at)
ON CONFLICT (org, sha256) DO NOTHING;

-- name: InsertBlobRef :exec
INSERT INTO blob_refs (org, session_id, turn_id, sha256)
VALUES (@org, @session_id, @turn_id, @sha256)
ON CONFLICT (org, session_id, turn_id, sha256) DO NOTHING;

-- name: Blob :one
SELECT data FROM blobs WHERE org = @org AND sha256 = @sha256;

-- The contents that nobody but this session uses.
-- name: DeleteOwnBlobs :exec
DELETE FROM blobs
WHERE blobs.org = @org
  AND blobs.sha256 IN (SELECT mine.sha256 FROM blob_refs AS mine WHERE mine.org = @org AND mine.session_id = @session_id)
  AND NOT EXISTS (SELECT 1 FROM blob_refs AS theirs
    WHERE theirs.org = @org AND theirs.sha256 = blobs.sha256 AND theirs.session_id <> @session_id);

-- The contents that a turn has brought.
-- name: TurnBlobs :many
SELECT b.sha256, b.data
FROM blob_refs AS r
JOIN blobs AS b ON b.org = r.org AND b.sha256 = r.sha256
WHERE r.org = @org AND r.session_id = @session_id AND r.turn_id = @turn_id;
