-- name: InsertWebhook :exec
INSERT INTO webhooks (org, webhook_id, url, description, events, secret, previous_secret, previous_until, created_by, created_at, disabled_at)
VALUES (@org, @webhook_id, @url, @description, @events, @secret, NULL, 0, @created_by, @created_at, 0);

-- name: CountWebhooks :one
SELECT count(*) FROM webhooks WHERE org = @org;

-- name: Webhook :one
SELECT * FROM webhooks WHERE org = @org AND webhook_id = @webhook_id;

-- name: Webhooks :many
SELECT * FROM webhooks WHERE org = @org AND webhook_id > @webhook_id::text ORDER BY webhook_id LIMIT @size;

-- name: DeleteWebhook :execrows
DELETE FROM webhooks WHERE org = @org AND webhook_id = @webhook_id;

-- name: DeleteWebhooksOf :exec
DELETE FROM webhooks WHERE org = @org;

-- name: RotateWebhook :one
UPDATE webhooks SET previous_secret = secret, previous_until = @previous_until, secret = @secret
WHERE org = @org AND webhook_id = @webhook_id
RETURNING *;

-- name: DisableWebhook :execrows
UPDATE webhooks SET disabled_at = @disabled_at WHERE org = @org AND webhook_id = @webhook_id AND disabled_at = 0;

-- The organisations that have webhooks in use.
-- name: WebhookOrgs :many
SELECT DISTINCT org FROM webhooks WHERE disabled_at = 0;

-- A message to every webhook that asked for it.
-- name: InsertDeliveries :exec
INSERT INTO deliveries (org, webhook_id, message_id, event, at, session_id, turn_id, mode, previous, actor, state, code,
  outcome, attempts, due_at, last_at, last_status, problem)
SELECT w.org, w.webhook_id, @message_id::text, @event::text, @at::bigint, s.session_id, @turn_id::text, s.mode, @previous::text, @actor::text,
  @state::text, @code::text, 'pending', 0, (extract(epoch FROM now()) * 1000000)::bigint, 0, 0, ''
FROM webhooks AS w
JOIN sessions AS s ON s.org = w.org AND s.session_id = @session_id
WHERE w.org = @org AND w.disabled_at = 0 AND position(@pattern::text IN w.events) > 0;

-- name: InsertTestDelivery :execrows
INSERT INTO deliveries (org, webhook_id, message_id, event, at, session_id, turn_id, mode, previous, actor, state, code,
  outcome, attempts, due_at, last_at, last_status, problem)
SELECT w.org, w.webhook_id, @message_id::text, @event::text, @at::bigint, NULL, '', '', '', '', '', '', 'pending', 0,
  (extract(epoch FROM now()) * 1000000)::bigint, 0, 0, ''
FROM webhooks AS w
WHERE w.org = @org AND w.webhook_id = @webhook_id AND w.disabled_at = 0;

-- The newest first.
-- name: Deliveries :many
SELECT * FROM deliveries
WHERE org = @org AND webhook_id = @webhook_id AND message_id < @before::text
ORDER BY message_id DESC
LIMIT @size;

-- The webhooks to which something is to be sent.
-- name: DueWebhooks :many
SELECT w.org, w.webhook_id FROM webhooks AS w
WHERE w.disabled_at = 0 AND EXISTS (SELECT 1 FROM deliveries AS d
  WHERE d.org = w.org AND d.webhook_id = w.webhook_id AND d.outcome = 'pending' AND d.due_at <= (extract(epoch FROM now()) * 1000000)::bigint);

-- Those that somebody else claims at this moment are left to him.
-- name: ClaimDeliveries :many
WITH due AS (
  SELECT d.org, d.webhook_id, d.message_id FROM deliveries AS d
  WHERE d.org = @org AND d.webhook_id = @webhook_id AND d.outcome = 'pending' AND d.due_at <= (extract(epoch FROM now()) * 1000000)::bigint
  ORDER BY d.due_at LIMIT @size
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE deliveries AS c SET attempts = c.attempts + 1, due_at = (extract(epoch FROM now()) * 1000000)::bigint + @lease::bigint
FROM due
WHERE c.org = due.org AND c.webhook_id = due.webhook_id AND c.message_id = due.message_id
RETURNING c.*;

-- What came of an attempt, unless another one has begun since.
-- name: SettleDelivery :exec
UPDATE deliveries SET outcome = @outcome, due_at = (extract(epoch FROM now()) * 1000000)::bigint + @wait::bigint,
  last_at = @last_at, last_status = @last_status, problem = @problem
WHERE org = @org AND webhook_id = @webhook_id AND message_id = @message_id AND outcome = 'pending' AND attempts = @attempts;

-- name: GiveUpDeliveries :exec
UPDATE deliveries SET outcome = 'failed' WHERE org = @org AND webhook_id = @webhook_id AND outcome = 'pending';

-- name: EveryWebhook :many
SELECT org, webhook_id FROM webhooks;

-- name: SweepDeliveries :execrows
WITH old AS (
  SELECT d.org, d.webhook_id, d.message_id FROM deliveries AS d
  WHERE d.org = @org AND d.webhook_id = @webhook_id AND d.message_id < @before::text AND d.outcome <> 'pending'
  ORDER BY d.message_id LIMIT @size
  FOR UPDATE SKIP LOCKED
)
DELETE FROM deliveries AS o USING old
WHERE o.org = old.org AND o.webhook_id = old.webhook_id AND o.message_id = old.message_id;

-- For a writer that does not know whether its own is there.
-- name: HasDelivery :one
SELECT EXISTS (SELECT 1 FROM deliveries WHERE org = @org AND webhook_id = @webhook_id AND message_id = @message_id);
