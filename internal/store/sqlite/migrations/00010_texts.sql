-- What the requests of a session have in common, instructions and tools above all, stood in
-- the journal once a request, and the tools once a turn: half of all bytes of a short turn.
-- What a session says a second time is kept once, and rows name it by its hash.

-- +goose Up
CREATE TABLE session_texts (
  org        TEXT NOT NULL,
  session_id TEXT NOT NULL,
  sha256     TEXT NOT NULL,
  data       BLOB NOT NULL,
  PRIMARY KEY (org, session_id, sha256),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) STRICT;

-- The tools of a turn, where they are a text of its session; tools is NULL then.
ALTER TABLE turns ADD COLUMN tools_sha256 TEXT;

-- The head of a model request: here, or where it is a text of the session by its hash. Rows
-- of before have it in their data.
ALTER TABLE steps ADD COLUMN head BLOB;
ALTER TABLE steps ADD COLUMN head_sha256 TEXT;
