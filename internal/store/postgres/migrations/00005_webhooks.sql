-- Webhooks, and what is to be sent to them.

-- +goose Up

-- events has a space before and behind each of them. Texts that clients write are bytea,
-- as in the journal.
CREATE TABLE webhooks (
  org             text COLLATE "C" NOT NULL,
  webhook_id      text COLLATE "C" NOT NULL,
  url             text   NOT NULL,
  description     bytea  NOT NULL,
  events          text   NOT NULL,
  secret          bytea  NOT NULL,
  previous_secret bytea,
  previous_until  bigint NOT NULL,
  created_by      text   NOT NULL,
  created_at      bigint NOT NULL,
  disabled_at     bigint NOT NULL,
  PRIMARY KEY (org, webhook_id)
);

-- A pending delivery is due at due_at, by the clock of this database. While somebody sends
-- it, that is when he is given up. It goes with its session, and with its webhook.
CREATE TABLE deliveries (
  org         text COLLATE "C" NOT NULL,
  webhook_id  text COLLATE "C" NOT NULL,
  message_id  text COLLATE "C" NOT NULL,
  event       text   NOT NULL,
  at          bigint NOT NULL,
  session_id  text COLLATE "C",
  turn_id     text   NOT NULL,
  mode        text   NOT NULL,
  previous    text   NOT NULL,
  actor       text   NOT NULL,
  state       text   NOT NULL,
  code        text   NOT NULL,
  outcome     text   NOT NULL CHECK (outcome IN ('pending', 'delivered', 'failed')),
  attempts    bigint NOT NULL,
  due_at      bigint NOT NULL,
  last_at     bigint NOT NULL,
  last_status bigint NOT NULL,
  problem     text   NOT NULL,
  PRIMARY KEY (org, webhook_id, message_id),
  FOREIGN KEY (org, webhook_id) REFERENCES webhooks (org, webhook_id) ON DELETE CASCADE,
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) WITH (fillfactor = 80);

CREATE INDEX deliveries_due ON deliveries (org, webhook_id, due_at) WHERE outcome = 'pending';
CREATE INDEX deliveries_session ON deliveries (org, session_id);
