-- Makes the leases of these turns last longer. It returns those that the owner has no
-- more. A turn that is written to at this moment is not waited for, lest it hold up all
-- the others; it is renewed the next time.
-- name: RenewLeases :many
WITH claims AS (
  SELECT unnest(@orgs::text[]) AS org, unnest(@sessions::text[]) AS session_id, unnest(@turns::text[]) AS turn_id,
    unnest(@epochs::bigint[]) AS epoch
), mine AS (
  SELECT t.org, t.session_id, t.turn_id FROM turns AS t
  JOIN claims AS c ON t.org = c.org AND t.session_id = c.session_id AND t.turn_id = c.turn_id AND t.epoch = c.epoch
  WHERE t.owner = @owner::text
  FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
  UPDATE turns AS t SET lease_until = (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
  FROM mine AS m WHERE t.org = m.org AND t.session_id = m.session_id AND t.turn_id = m.turn_id
)
SELECT c.org::text AS org, c.session_id::text AS session_id, c.turn_id::text AS turn_id FROM claims AS c
WHERE NOT EXISTS (SELECT 1 FROM turns AS t
  WHERE t.org = c.org AND t.session_id = c.session_id AND t.turn_id = c.turn_id AND t.epoch = c.epoch AND t.owner = @owner::text);

-- Takes over turns that should run and that nobody runs. Two owners that ask at the same
-- time get different ones, and neither waits.
-- name: Takeover :many
WITH free AS (
  SELECT f.org, f.session_id, f.turn_id FROM turns AS f
  WHERE f.state IN ('accepted', 'running', 'waiting') AND NOT f.queued AND f.state <> 'waiting'
    AND f.lease_until < (extract(epoch FROM now()) * 1000000)::bigint
  ORDER BY f.lease_until
  LIMIT @size
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE turns AS t SET owner = @owner::text, epoch = t.epoch + 1,
  lease_until = (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
FROM free
WHERE t.org = free.org AND t.session_id = free.session_id AND t.turn_id = free.turn_id
RETURNING t.org, t.session_id, t.turn_id, t.epoch;

-- Gives leases up, so that the next who looks finds the turns.
-- name: ReleaseLeases :exec
UPDATE turns AS t SET owner = '', lease_until = 0
FROM (SELECT unnest(@orgs::text[]) AS org, unnest(@sessions::text[]) AS session_id, unnest(@turns::text[]) AS turn_id,
  unnest(@epochs::bigint[]) AS epoch) AS c
WHERE t.org = c.org AND t.session_id = c.session_id AND t.turn_id = c.turn_id AND t.epoch = c.epoch AND t.owner = @owner::text;

-- How far turns have come, for those who watch what others run.
-- name: Positions :many
SELECT t.org, t.session_id, t.turn_id, t.state, t.steps, t.epoch
FROM (SELECT unnest(@orgs::text[]) AS org, unnest(@sessions::text[]) AS session_id, unnest(@turns::text[]) AS turn_id) AS k
JOIN turns AS t ON t.org = k.org AND t.session_id = k.session_id AND t.turn_id = k.turn_id;

-- The epoch of a turn, which nobody moves on until this transaction ends.
-- name: HeldEpoch :one
SELECT epoch FROM turns WHERE org = @org AND session_id = @session_id AND turn_id = @turn_id FOR SHARE;
