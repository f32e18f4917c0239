-- The audit log, and the erasures of users and organisations.

-- +goose Up

-- entry_id is ordered by time. Nothing refers to other tables: entries stay when what they
-- name is erased.
CREATE TABLE audit (
  org        text COLLATE "C" NOT NULL,
  entry_id   text COLLATE "C" NOT NULL,
  at         bigint NOT NULL,
  action     text   NOT NULL,
  user_id    text   NOT NULL,
  role       text   NOT NULL,
  credential text   NOT NULL,
  session_id text   NOT NULL,
  turn_id    text   NOT NULL,
  subject    text   NOT NULL,
  request_id text   NOT NULL,
  address    text   NOT NULL,
  details    bytea,
  PRIMARY KEY (org, entry_id)
);

-- What is older than this may go: the retention of the log, and the only way. It moves
-- forward only, and never into the last day.
CREATE TABLE audit_horizon (
  one       integer NOT NULL PRIMARY KEY CHECK (one = 1),
  before_at bigint  NOT NULL
);

INSERT INTO audit_horizon (one, before_at) VALUES (1, 0);

-- +goose StatementBegin
CREATE FUNCTION audit_horizon_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'UPDATE' OR NEW.one <> 1 OR NEW.before_at < OLD.before_at
    OR NEW.before_at > (extract(epoch FROM now()) - 86400) * 1000000 THEN
    RAISE EXCEPTION 'the horizon of the audit log moves forward only, and not into the last day';
  END IF;
  RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_horizon_moves BEFORE UPDATE OR DELETE ON audit_horizon
  FOR EACH ROW EXECUTE FUNCTION audit_horizon_check();

-- +goose StatementBegin
CREATE FUNCTION audit_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.at < (SELECT h.before_at FROM audit_horizon AS h WHERE h.one = 1) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'the audit log is append-only';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
  FOR EACH ROW EXECUTE FUNCTION audit_check();

-- +goose StatementBegin
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_horizon_is_not_emptied BEFORE TRUNCATE ON audit_horizon
  FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();

-- An erasure of a user, or of the whole organisation when user_id is empty. It has come
-- as far as after_session; somebody works on it until lease_until.
CREATE TABLE erasures (
  org           text COLLATE "C" NOT NULL,
  erasure_id    text COLLATE "C" NOT NULL,
  user_id       text   NOT NULL,
  after_session text COLLATE "C" NOT NULL,
  sessions      bigint NOT NULL,
  created_at    bigint NOT NULL,
  finished_at   bigint NOT NULL,
  lease_until   bigint NOT NULL,
  PRIMARY KEY (org, erasure_id)
);

CREATE INDEX erasures_open ON erasures (created_at) WHERE finished_at = 0;
