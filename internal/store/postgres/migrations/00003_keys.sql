-- API keys, of which only the hash of the secret is kept; a key that is revoked stays. And
-- the sessions of one user, newest first.

-- +goose Up
CREATE TABLE api_keys (
  org           text COLLATE "C" NOT NULL,
  key_id        text COLLATE "C" NOT NULL,
  user_id       text   NOT NULL,
  name          text   NOT NULL,
  role          text   NOT NULL CHECK (role IN ('user', 'operator', 'admin')),
  secret_sha256 bytea  NOT NULL CHECK (length(secret_sha256) = 32),
  created_at    bigint NOT NULL,
  created_by    text   NOT NULL,
  expires_at    bigint NOT NULL,
  revoked_at    bigint NOT NULL,
  last_used_at  bigint NOT NULL,
  PRIMARY KEY (org, key_id)
);

-- Whose a key is, is known only when it is found.
CREATE UNIQUE INDEX api_keys_id ON api_keys (key_id);

CREATE INDEX sessions_of_user ON sessions (org, created_by, created_at, session_id) WHERE created_at > 0;
