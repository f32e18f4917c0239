-- The journal. Every key begins with organisation and session, and apart from
-- lists, sweeps and branches no statement spans two sessions, so the schema can be sharded
-- as it is. Times are microseconds since 1970 in UTC, 0 for none. Columns that
-- hold JSON are BLOBs, because their bytes are kept as they came.
--
-- Migrations only go forward. A file with a newer schema than the program knows
-- is refused when it is opened.

-- +goose Up
CREATE TABLE sessions (
  org                  TEXT    NOT NULL,
  session_id           TEXT    NOT NULL,
  created_by           TEXT    NOT NULL,
  mode                 TEXT    NOT NULL CHECK (mode <> ''),
  version              INTEGER NOT NULL,
  system_prompt        TEXT    NOT NULL,
  client_tools         BLOB,
  agent_context        TEXT    NOT NULL,
  conversation_context TEXT    NOT NULL,
  solution_context     TEXT    NOT NULL,
  concurrency          TEXT    NOT NULL,
  last_response_id     TEXT    NOT NULL,
  -- turns counts, so that the next ordinal is known without looking at the turns.
  turns                INTEGER NOT NULL,
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL,
  PRIMARY KEY (org, session_id)
) STRICT;

CREATE INDEX sessions_newest ON sessions (org, created_at, session_id);

-- Append-only; written together with sessions.mode.
CREATE TABLE mode_changes (
  org        TEXT    NOT NULL,
  session_id TEXT    NOT NULL,
  sequence   INTEGER NOT NULL,
  previous   TEXT    NOT NULL,
  mode       TEXT    NOT NULL CHECK (mode <> previous),
  reason     TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  user_id    TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  turn_id    TEXT    NOT NULL,
  call_id    TEXT    NOT NULL,
  branch     INTEGER NOT NULL,
  PRIMARY KEY (org, session_id, sequence),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- One tool call changes the mode once, however often it is run.
CREATE UNIQUE INDEX mode_changes_call ON mode_changes (org, session_id, turn_id, call_id) WHERE call_id <> '';

CREATE TABLE turns (
  org                 TEXT    NOT NULL,
  session_id          TEXT    NOT NULL,
  turn_id             TEXT    NOT NULL,
  ordinal             INTEGER NOT NULL,
  user_id             TEXT    NOT NULL,
  state               TEXT    NOT NULL CHECK (state IN ('accepted', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
  request             BLOB,
  body_sha256         TEXT    NOT NULL,
  mode                TEXT    NOT NULL,
  tools               BLOB,
  stream              INTEGER,
  response            BLOB,
  fault               BLOB,
  continuation_sha256 TEXT    NOT NULL,
  deadline            INTEGER NOT NULL,
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL,
  PRIMARY KEY (org, session_id, turn_id),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) STRICT;

CREATE UNIQUE INDEX turns_ordinal ON turns (org, session_id, ordinal);

-- One active turn per session, and the short list that the sweeps walk.
CREATE UNIQUE INDEX turns_active ON turns (org, session_id) WHERE state IN ('accepted', 'running', 'waiting');

-- Append-only. Rows are large, so the table keeps its rowid: new rows go to its end.
CREATE TABLE steps (
  org         TEXT    NOT NULL,
  session_id  TEXT    NOT NULL,
  turn_id     TEXT    NOT NULL,
  n           INTEGER NOT NULL,
  kind        TEXT    NOT NULL,
  first_event INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  data        BLOB    NOT NULL,
  items       BLOB,
  PRIMARY KEY (org, session_id, turn_id, n),
  FOREIGN KEY (org, session_id, turn_id) REFERENCES turns (org, session_id, turn_id) ON DELETE CASCADE
) STRICT;

-- Contents of artifacts and images, once per organisation.
CREATE TABLE blobs (
  org        TEXT    NOT NULL,
  sha256     TEXT    NOT NULL,
  mime_type  TEXT    NOT NULL,
  data       BLOB    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (org, sha256)
) STRICT;

-- Which turn uses which content. The reference to the content is checked at
-- commit, so that erasing a session may drop its contents before its turns.
CREATE TABLE blob_refs (
  org        TEXT NOT NULL,
  session_id TEXT NOT NULL,
  turn_id    TEXT NOT NULL,
  sha256     TEXT NOT NULL,
  PRIMARY KEY (org, session_id, turn_id, sha256),
  FOREIGN KEY (org, session_id, turn_id) REFERENCES turns (org, session_id, turn_id) ON DELETE CASCADE,
  FOREIGN KEY (org, sha256) REFERENCES blobs (org, sha256) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_refs_content ON blob_refs (org, sha256, session_id);
