-- A step's id is its turn's number, shifted by 20 bits, and the number of the step.
-- name: InsertStep :exec
INSERT INTO steps (id, kind, first_event, at, data, items, cuts, head, head_sha256)
VALUES (@id, @kind, @first_event, @at, @data, @items, @cuts, @head, @head_sha256);

-- name: Steps :many
SELECT CAST(s.id & 1048575 AS INTEGER) AS n, s.kind, s.first_event, s.at, s.data, s.items, s.cuts, s.head, s.head_sha256, x.data AS text
FROM turns AS t
JOIN steps AS s ON s.id > (t.number << 20) AND s.id < ((t.number + 1) << 20)
LEFT JOIN session_texts AS x ON x.org = t.org AND x.session_id = t.session_id AND x.sha256 = s.head_sha256
WHERE t.org = @org AND t.session_id = @session_id AND t.turn_id = @turn_id
ORDER BY s.id;

-- name: Transcript :many
SELECT t.ordinal, s.kind, s.items, s.cuts
FROM turns AS t
JOIN steps AS s ON s.id > (t.number << 20) AND s.id < ((t.number + 1) << 20)
WHERE t.org = @org AND t.session_id = @session_id AND t.state = 'completed' AND t.ordinal > @after AND t.ordinal < @before
  AND s.kind IN ('asked', 'answered')
ORDER BY t.ordinal, s.id;
