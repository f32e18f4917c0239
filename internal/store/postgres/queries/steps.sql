-- name: Steps :many
SELECT n, kind, first_event, at, data, items, cuts FROM steps
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id
ORDER BY n;

-- Steps of these numbers, for a writer that does not know whether its own are there.
-- name: StepsBetween :many
SELECT n, kind, first_event, at, data, items, cuts FROM steps
WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id AND n >= @first_n::bigint AND n <= @last_n::bigint
ORDER BY n;

-- name: Transcript :many
SELECT t.ordinal, s.kind, s.items, s.cuts
FROM turns AS t
JOIN steps AS s ON s.org = t.org AND s.session_id = t.session_id AND s.turn_id = t.turn_id
WHERE t.org = @org AND t.session_id = @session_id AND t.state = 'completed'
  AND t.ordinal > 0 AND t.ordinal > @after AND t.ordinal < @before
  AND s.kind IN ('asked', 'answered')
ORDER BY t.ordinal, s.n;
