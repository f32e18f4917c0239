-- Webhooks, and what is to be sent to them.

-- +goose Up

-- events has a space before and behind each of them.
CREATE TABLE webhooks (
  org             TEXT    NOT NULL,
  webhook_id      TEXT    NOT NULL,
  url             TEXT    NOT NULL,
  description     TEXT    NOT NULL,
  events          TEXT    NOT NULL,
  secret          BLOB    NOT NULL,
  previous_secret BLOB,
  previous_until  INTEGER NOT NULL,
  created_by      TEXT    NOT NULL,
  created_at      INTEGER NOT NULL,
  disabled_at     INTEGER NOT NULL,
  PRIMARY KEY (org, webhook_id)
) STRICT, WITHOUT ROWID;

-- A pending delivery is due at due_at. While somebody sends it, that is when he is given
-- up. It goes with its session, and with its webhook.
CREATE TABLE deliveries (
  org         TEXT    NOT NULL,
  webhook_id  TEXT    NOT NULL,
  message_id  TEXT    NOT NULL,
  event       TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  session_id  TEXT,
  turn_id     TEXT    NOT NULL,
  mode        TEXT    NOT NULL,
  previous    TEXT    NOT NULL,
  actor       TEXT    NOT NULL,
  state       TEXT    NOT NULL,
  code        TEXT    NOT NULL,
  outcome     TEXT    NOT NULL CHECK (outcome IN ('pending', 'delivered', 'failed')),
  attempts    INTEGER NOT NULL,
  due_at      INTEGER NOT NULL,
  last_at     INTEGER NOT NULL,
  last_status INTEGER NOT NULL,
  problem     TEXT    NOT NULL,
  PRIMARY KEY (org, webhook_id, message_id),
  FOREIGN KEY (org, webhook_id) REFERENCES webhooks (org, webhook_id) ON DELETE CASCADE,
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (org, webhook_id, due_at) WHERE outcome = 'pending';
CREATE INDEX deliveries_session ON deliveries (org, session_id);
