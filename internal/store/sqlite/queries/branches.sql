-- A branch copies the completed turns of its parent up to an ordinal: what it remembers is
-- then its own.

-- name: CopyTurns :execrows
INSERT INTO turns (org, session_id, turn_id, ordinal, user_id, state, request, body_sha256, mode, tools, stream,
  response, fault, continuation_sha256, deadline, created_at, updated_at, queued, tools_sha256)
SELECT t.org, @session_id, t.turn_id, t.ordinal, t.user_id, t.state, t.request, t.body_sha256, t.mode, t.tools, t.stream,
  t.response, t.fault, t.continuation_sha256, t.deadline, t.created_at, t.updated_at, t.queued, t.tools_sha256
FROM turns AS t
WHERE t.org = @org AND t.session_id = @parent_session AND t.state = 'completed' AND t.ordinal <= @ordinal;

-- name: CopySteps :exec
INSERT INTO steps (id, kind, first_event, at, data, items, cuts, head, head_sha256)
SELECT (t.number << 20) | (s.id & 1048575), s.kind, s.first_event, s.at, s.data, s.items, s.cuts, s.head, s.head_sha256
FROM turns AS t
JOIN turns AS p ON p.org = t.org AND p.session_id = @parent_session AND p.turn_id = t.turn_id
JOIN steps AS s ON s.id > (p.number << 20) AND s.id < ((p.number + 1) << 20)
WHERE t.org = @org AND t.session_id = @session_id;

-- name: CopyBlobRefs :exec
INSERT INTO blob_refs (org, session_id, turn_id, sha256)
SELECT r.org, @session_id, r.turn_id, r.sha256
FROM blob_refs AS r
JOIN turns AS t ON t.org = r.org AND t.session_id = @session_id AND t.turn_id = r.turn_id
WHERE r.org = @org AND r.session_id = @parent_session;

-- name: CopyTexts :exec
INSERT INTO session_texts (org, session_id, sha256, data)
SELECT x.org, @session_id, x.sha256, x.data
FROM session_texts AS x
WHERE x.org = @org AND x.session_id = @parent_session;
