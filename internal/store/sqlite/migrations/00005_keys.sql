-- API keys, of which only the hash of the secret is kept; a key that is revoked stays. And
-- the sessions of one user, newest first.

-- +goose Up
CREATE TABLE api_keys (
  org           TEXT    NOT NULL,
  key_id        TEXT    NOT NULL,
  user_id       TEXT    NOT NULL,
  name          TEXT    NOT NULL,
  role          TEXT    NOT NULL CHECK (role IN ('user', 'operator', 'admin')),
  secret_sha256 BLOB    NOT NULL CHECK (length(secret_sha256) = 32),
  created_at    INTEGER NOT NULL,
  created_by    TEXT    NOT NULL,
  expires_at    INTEGER NOT NULL,
  revoked_at    INTEGER NOT NULL,
  last_used_at  INTEGER NOT NULL,
  PRIMARY KEY (org, key_id)
) STRICT, WITHOUT ROWID;

-- Whose a key is, is known only when it is found.
CREATE UNIQUE INDEX api_keys_id ON api_keys (key_id);

CREATE INDEX sessions_of_user ON sessions (org, created_by, created_at, session_id);
