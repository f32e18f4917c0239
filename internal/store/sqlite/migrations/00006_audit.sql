-- The audit log, and the erasures of users and organisations.

-- +goose Up

-- entry_id is ordered by time. Nothing refers to other tables: entries stay when what they
-- name is erased.
CREATE TABLE audit (
  org        TEXT    NOT NULL,
  entry_id   TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  action     TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  role       TEXT    NOT NULL,
  credential TEXT    NOT NULL,
  session_id TEXT    NOT NULL,
  turn_id    TEXT    NOT NULL,
  subject    TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  address    TEXT    NOT NULL,
  details    BLOB,
  PRIMARY KEY (org, entry_id)
) STRICT, WITHOUT ROWID;

-- What is older than this may go: the retention of the log, and the only way. It moves
-- forward only, and never into the last day.
CREATE TABLE audit_horizon (
  one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  before_at INTEGER NOT NULL
) STRICT;

INSERT INTO audit_horizon (one, before_at) VALUES (1, 0);

-- +goose StatementBegin
CREATE TRIGGER audit_horizon_moves BEFORE UPDATE ON audit_horizon
WHEN NEW.one <> 1 OR NEW.before_at < OLD.before_at OR NEW.before_at > (unixepoch() - 86400) * 1000000
BEGIN
  SELECT RAISE(ABORT, 'the horizon of the audit log moves forward only, and not into the last day');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_horizon_stays BEFORE DELETE ON audit_horizon
BEGIN
  SELECT RAISE(ABORT, 'the audit log has one horizon');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_is_not_erased BEFORE DELETE ON audit
WHEN OLD.at >= (SELECT before_at FROM audit_horizon WHERE one = 1)
BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd

-- An erasure of a user, or of the whole organisation when user_id is empty. It has come
-- as far as after_session.
CREATE TABLE erasures (
  org           TEXT    NOT NULL,
  erasure_id    TEXT    NOT NULL,
  user_id       TEXT    NOT NULL,
  after_session TEXT    NOT NULL,
  sessions      INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  finished_at   INTEGER NOT NULL,
  PRIMARY KEY (org, erasure_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX erasures_open ON erasures (created_at) WHERE finished_at = 0;
