package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// Queue is where deliveries wait.
type Queue interface {
	LookForWebhooks(ctx context.Context) error
	DueWebhooks(ctx context.Context) ([]store.WebhookKey, error)
	ClaimDeliveries(ctx context.Context, k store.WebhookKey, lease time.Duration, most int) (agent.Webhook, []agent.WebhookDelivery, error)
	SettleDelivery(ctx context.Context, a store.Attempt) error
	DisableWebhook(ctx context.Context, k store.WebhookKey) error
	EveryWebhook(ctx context.Context) ([]store.WebhookKey, error)
	SweepDeliveries(ctx context.Context, k store.WebhookKey, before time.Time, most int) (int, error)
}

// Config says how messages are delivered. Queue and Log are required; zero fields mean the
// documented default.
type Config struct {
	Queue Queue
	Log   *slog.Logger
	// Policy says where messages may go.
	Policy outbound.Policy
	// Retry is for how long a message is tried; default 3 days.
	Retry time.Duration
	// Timeout bounds an attempt; default 15 s.
	Timeout time.Duration
	// AtOnce is how many attempts to one webhook run at a time here; default 4.
	AtOnce int
	// Every is how often is looked for what is due; default 1 s.
	Every time.Duration
	// Backoff is how long to wait after the n-th attempt, n counting from 1. The default
	// is 5 s, and four times as long each time up to 6 h; each time by chance up to a half
	// less.
	Backoff func(n int64) time.Duration
	// Telemetry is told of each attempt; nil is nobody.
	Telemetry *telemetry.Telemetry
}

const (
	// claimSlack is for how much longer than its attempt a claim holds.
	claimSlack = 15 * time.Second
	// settleTime bounds the write of what came of an attempt.
	settleTime = 5 * time.Second
	// maxAnswer is how much of an answer is read, so that its connection can be used again.
	maxAnswer = 64 << 10
	// sweepEvery is how often deliveries are looked for that are over and older than kept.
	sweepEvery = time.Minute
	kept       = 7 * 24 * time.Hour
	sweepBatch = 1000
	userAgent  = "aptix-webhooks"
)

// Deliverer sends what is due. Any number of them may use the same queue.
type Deliverer struct {
	Config
	client *http.Client
	freed  chan struct{} // told when an attempt has ended
	work   sync.WaitGroup

	mu   sync.Mutex // guards busy
	busy map[store.WebhookKey]int
}

// NewDeliverer returns a deliverer; Run starts it.
func NewDeliverer(c Config) *Deliverer {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Retry, 72*time.Hour)
	def(&c.Timeout, 15*time.Second)
	def(&c.Every, time.Second)
	if c.AtOnce <= 0 {
		c.AtOnce = 4
	}
	if c.Backoff == nil {
		c.Backoff = backoff
	}
	return &Deliverer{Config: c, client: outbound.NewClient(c.Policy), freed: make(chan struct{}, 1), busy: map[store.WebhookKey]int{}}
}

func backoff(n int64) time.Duration {
	longest := min(5*time.Second<<min(2*(n-1), 20), 6*time.Hour)
	return longest/2 + rand.N(longest/2)
}

// Run delivers until ctx ends, and returns when the attempts have ended that are under way.
// What they did not come to is due again at once.
func (d *Deliverer) Run(ctx context.Context) {
	defer d.client.CloseIdleConnections()
	defer d.work.Wait()
	d.work.Go(func() { d.sweepOften(ctx) })
	tick := time.NewTicker(d.Every)
	defer tick.Stop()
	for {
		if err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.Log.Error("look for webhooks to deliver", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.freed:
		}
	}
}

// look begins attempts at all that is due and that there is a place for.
func (d *Deliverer) look(ctx context.Context) error {
	if err := d.Queue.LookForWebhooks(ctx); err != nil {
		return err
	}
	due, err := d.Queue.DueWebhooks(ctx)
	if err != nil {
		return err
	}
	for _, k := range due {
		free := d.places(k)
		if free == 0 {
			continue
		}
		w, claimed, err := d.Queue.ClaimDeliveries(ctx, k, d.Timeout+claimSlack, free)
		if agent.KindOf(err) == agent.KindNotFound && err != nil {
			continue // it was deleted just now
		}
		if err != nil {
			return err
		}
		for _, v := range claimed {
			d.begin(ctx, k, w, v)
		}
	}
	return nil
}

// places is how many more attempts to a webhook may run here.
func (d *Deliverer) places(k store.WebhookKey) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.AtOnce-d.busy[k], 0)
}

// begin makes an attempt in a goroutine of its own.
func (d *Deliverer) begin(ctx context.Context, k store.WebhookKey, w agent.Webhook, v agent.WebhookDelivery) {
	d.mu.Lock()
	d.busy[k]++
	d.mu.Unlock()
	d.work.Go(func() {
		defer d.free(k)
		if err := d.deliver(ctx, k, w, v); err != nil {
			d.Log.Error("deliver a message to a webhook", "webhook", k.Webhook, "message", v.Message, "error", err)
		}
	})
}

func (d *Deliverer) free(k store.WebhookKey) {
	d.mu.Lock()
	if d.busy[k]--; d.busy[k] == 0 {
		delete(d.busy, k)
	}
	d.mu.Unlock()
	select {
	case d.freed <- struct{}{}:
	default: // it is told already
	}
}

// deliver makes an attempt and records what came of it.
func (d *Deliverer) deliver(ctx context.Context, k store.WebhookKey, w agent.Webhook, v agent.WebhookDelivery) error {
	now := time.Now()
	sending, noted := d.Telemetry.StartDelivery(ctx)
	status, err := d.send(sending, w, v, now)
	a := store.Attempt{Key: k, Message: v.Message, Number: v.Attempts, Outcome: agent.DeliveryPending, At: now, Status: int64(status)}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	switch wait := d.Backoff(v.Attempts); {
	case err == nil && status >= 200 && status < 300:
		a.Outcome = agent.DeliveryDelivered
	case ctx.Err() != nil:
		a.Problem = "the server stopped" // due at once, for whoever comes next
	case status == http.StatusGone:
		d.Log.Info("a webhook is given up: its receiver is gone", "webhook", k.Webhook, "org", k.Org)
		a.Outcome, a.Problem = agent.DeliveryFailed, problem(status, err)
		defer func() { // after the attempt is settled, which is final then
			if err := d.Queue.DisableWebhook(settling, k); err != nil {
				d.Log.Error("disable a webhook", "webhook", k.Webhook, "error", err)
			}
		}()
	case now.Add(wait).Sub(v.At) > d.Retry:
		a.Outcome, a.Problem = agent.DeliveryFailed, problem(status, err)
	default:
		a.Wait, a.Problem = wait, problem(status, err)
	}
	noted.End(a.Outcome)
	return d.Queue.SettleDelivery(settling, a)
}

// send posts a message and returns the status of the answer. Nothing of its body is kept.
func (d *Deliverer) send(ctx context.Context, w agent.Webhook, v agent.WebhookDelivery, now time.Time) (status int, err error) {
	body, err := bodyOf(v)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	telemetry.Inject(ctx, req.Header)
	req.Header.Set("webhook-id", string(v.Message))
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", signature(w, v.Message, now, body))
	res, err := d.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // whatever comes of it, the status is there
	return res.StatusCode, nil
}

// problem says what was wrong with an attempt, without a word that the other side wrote or
// that tells of the network in between.
func problem(status int, err error) string {
	refused := (*outbound.RefusedError)(nil)
	switch {
	case err == nil:
		return fmt.Sprintf("answered %d", status)
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "no connection"
}

// sweepOften forgets old deliveries until ctx ends.
func (d *Deliverer) sweepOften(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
				d.Log.Error("sweep old deliveries of webhooks", "error", err)
			}
		}
	}
}

func (d *Deliverer) sweep(ctx context.Context) error {
	all, err := d.Queue.EveryWebhook(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if _, err := d.Queue.SweepDeliveries(ctx, k, time.Now().Add(-kept), sweepBatch); err != nil {
			return err
		}
	}
	return nil
}
