-- What the user approved for the rest of the session, a JSON array; where the session was
-- branched off; how far it has entered its mode; and the consent behind a mode change.

-- +goose Up
ALTER TABLE sessions ADD COLUMN approved_tools BLOB;
ALTER TABLE sessions ADD COLUMN parent_session TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN parent_turn TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN mode_entry TEXT NOT NULL DEFAULT 'pending';
ALTER TABLE mode_changes ADD COLUMN approval_id TEXT NOT NULL DEFAULT '';
