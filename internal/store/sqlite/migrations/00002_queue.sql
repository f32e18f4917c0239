-- A turn may wait for its session: it is accepted, and it is not active yet.

-- +goose Up
ALTER TABLE turns ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;

DROP INDEX turns_active;
CREATE UNIQUE INDEX turns_active ON turns (org, session_id) WHERE state IN ('accepted', 'running', 'waiting') AND queued = 0;

-- The turns of a session that wait, in the order in which they came.
CREATE INDEX turns_queued ON turns (org, session_id, ordinal) WHERE queued = 1;
