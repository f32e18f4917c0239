-- Turns are numbered, and steps are kept under their turn's number. The key of a step was
-- kept twice, with the row and in an index, and a turn of four steps wrote five pages for it.
--
-- Numbers hold within this file and only between turns and steps: a session that moves
-- to another file has its turns numbered there anew. All else still begins with organisation
-- and session.

-- +goose Up
CREATE TABLE numbered_turns (
  number              INTEGER PRIMARY KEY,
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
  queued              INTEGER NOT NULL DEFAULT 0,
  UNIQUE (org, session_id, turn_id),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) STRICT;

-- Append-only, but for names that are forgotten. Rows are large, so they lie in the order of
-- an integer, and those of new turns at the end: the turn's number in the high bits, and
-- in the low 20 the number of the step, from 1.
CREATE TABLE numbered_steps (
  id          INTEGER PRIMARY KEY CHECK (id & 1048575 > 0),
  kind        TEXT    NOT NULL,
  first_event INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  data        BLOB    NOT NULL,
  items       BLOB,
  cuts        BLOB
) STRICT;

CREATE TABLE numbered_blob_refs (
  org        TEXT NOT NULL,
  session_id TEXT NOT NULL,
  turn_id    TEXT NOT NULL,
  sha256     TEXT NOT NULL,
  PRIMARY KEY (org, session_id, turn_id, sha256),
  FOREIGN KEY (org, session_id, turn_id) REFERENCES numbered_turns (org, session_id, turn_id) ON DELETE CASCADE,
  FOREIGN KEY (org, sha256) REFERENCES blobs (org, sha256) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

INSERT INTO numbered_turns (number, org, session_id, turn_id, ordinal, user_id, state, request, body_sha256, mode, tools, stream,
  response, fault, continuation_sha256, deadline, created_at, updated_at, queued)
SELECT rowid, org, session_id, turn_id, ordinal, user_id, state, request, body_sha256, mode, tools, stream,
  response, fault, continuation_sha256, deadline, created_at, updated_at, queued
FROM turns ORDER BY rowid;

INSERT INTO numbered_steps (id, kind, first_event, at, data, items, cuts)
SELECT (t.number << 20) | s.n, s.kind, s.first_event, s.at, s.data, s.items, s.cuts
FROM numbered_turns AS t
CROSS JOIN steps AS s ON s.org = t.org AND s.session_id = t.session_id AND s.turn_id = t.turn_id
ORDER BY t.number, s.n;

INSERT INTO numbered_blob_refs (org, session_id, turn_id, sha256) SELECT org, session_id, turn_id, sha256 FROM blob_refs;

-- In this order nothing that is left refers to what goes.
DROP TABLE blob_refs;
DROP TABLE steps;
DROP TABLE turns;

ALTER TABLE numbered_turns RENAME TO turns;
ALTER TABLE numbered_steps RENAME TO steps;
ALTER TABLE numbered_blob_refs RENAME TO blob_refs;

CREATE UNIQUE INDEX turns_ordinal ON turns (org, session_id, ordinal);
CREATE UNIQUE INDEX turns_active ON turns (org, session_id) WHERE state IN ('accepted', 'running', 'waiting') AND queued = 0;
CREATE INDEX turns_queued ON turns (org, session_id, ordinal) WHERE queued = 1;
CREATE INDEX blob_refs_content ON blob_refs (org, sha256, session_id);

-- The journal goes with its turn. A foreign key would need an index of the turns' numbers.
-- +goose StatementBegin
CREATE TRIGGER turns_journal AFTER DELETE ON turns
BEGIN
  DELETE FROM steps WHERE id > (OLD.number << 20) AND id < ((OLD.number + 1) << 20);
END;
-- +goose StatementEnd
