-- What the user approved for the rest of the session, a JSON array; where the session was
-- branched off; how far it has entered its mode; and the consent behind a mode change.

-- +goose Up
ALTER TABLE sessions
  ADD COLUMN approved_tools bytea,
  ADD COLUMN parent_session text NOT NULL DEFAULT '',
  ADD COLUMN parent_turn    text NOT NULL DEFAULT '',
  ADD COLUMN mode_entry     text NOT NULL DEFAULT 'pending';
ALTER TABLE mode_changes ADD COLUMN approval_id text NOT NULL DEFAULT '';
