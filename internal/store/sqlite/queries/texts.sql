-- name: InsertText :exec
INSERT INTO session_texts (org, session_id, sha256, data)
VALUES (@org, @session_id, @sha256, @data)
ON CONFLICT (org, session_id, sha256) DO NOTHING;
