-- name: InsertKey :execrows
INSERT INTO api_keys (org, key_id, user_id, name, role, secret_sha256, created_at, created_by, expires_at, revoked_at, last_used_at)
VALUES (@org, @key_id, @user_id, @name, @role, @secret_sha256, @created_at, @created_by, @expires_at, 0, 0)
ON CONFLICT DO NOTHING;

-- name: KeyByID :one
SELECT * FROM api_keys WHERE key_id = @key_id;

-- name: Key :one
SELECT * FROM api_keys WHERE org = @org AND key_id = @key_id;

-- name: Keys :many
SELECT * FROM api_keys WHERE org = @org AND key_id > @after ORDER BY key_id LIMIT @size;

-- name: AllKeys :many
SELECT * FROM api_keys WHERE (org, key_id) > (@org, @key_id) ORDER BY org, key_id LIMIT @size;

-- name: RevokeKey :execrows
UPDATE api_keys SET revoked_at = @revoked_at WHERE org = @org AND key_id = @key_id AND revoked_at = 0;

-- name: TouchKey :exec
UPDATE api_keys SET last_used_at = @last_used_at WHERE org = @org AND key_id = @key_id AND last_used_at <= @before;

-- name: AnyKey :one
SELECT EXISTS (SELECT 1 FROM api_keys WHERE key_id > '') AS found;

-- Those of an organisation, or of one user of it.
-- name: RevokeKeysOf :many
UPDATE api_keys SET revoked_at = @revoked_at
WHERE org = @org AND revoked_at = 0 AND (@user_id::text = '' OR user_id = @user_id::text)
RETURNING key_id;

-- What people are called in those, once they are revoked. The rows stay: that there was a key
-- keeps authentication on.
-- name: ForgetKeys :exec
UPDATE api_keys SET user_id = @anonymous::text, name = ''
WHERE org = @org AND revoked_at > 0 AND (@user_id::text = '' OR user_id = @user_id::text);

-- name: ForgetKeyMakers :exec
UPDATE api_keys SET created_by = @anonymous::text
WHERE org = @org AND (created_by = @user_id::text OR @user_id::text = '' AND revoked_at > 0);
