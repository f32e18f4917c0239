-- A branch copies the completed turns of its parent up to an ordinal: what it remembers is
-- then its own.

-- name: CopyTurns :execrows
INSERT INTO turns (org, session_id, turn_id, ordinal, user_id, state, queued, request, body_sha256, mode, tools, stream,
  response, fault, continuation_sha256, deadline, created_at, updated_at, steps, owner, epoch, lease_until)
SELECT t.org, @session_id, t.turn_id, t.ordinal, t.user_id, t.state, t.queued, t.request, t.body_sha256, t.mode, t.tools, t.stream,
  t.response, t.fault, t.continuation_sha256, t.deadline, t.created_at, t.updated_at, t.steps, '', t.epoch, 0
FROM turns AS t
WHERE t.org = @org AND t.session_id = @parent_session AND t.ordinal > 0 AND t.ordinal <= @ordinal AND t.state = 'completed';

-- name: CopySteps :exec
INSERT INTO steps (org, session_id, turn_id, n, kind, first_event, at, data, items, cuts)
SELECT s.org, @session_id, s.turn_id, s.n, s.kind, s.first_event, s.at, s.data, s.items, s.cuts
FROM steps AS s
JOIN turns AS t ON t.org = s.org AND t.session_id = @session_id AND t.turn_id = s.turn_id
WHERE s.org = @org AND s.session_id = @parent_session;

-- name: CopyBlobRefs :exec
INSERT INTO blob_refs (org, session_id, turn_id, sha256)
SELECT r.org, @session_id, r.turn_id, r.sha256
FROM blob_refs AS r
JOIN turns AS t ON t.org = r.org AND t.session_id = @session_id AND t.turn_id = r.turn_id
WHERE r.org = @org AND r.session_id = @parent_session;
