package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// ProviderConfig says how patient a Provider is. Zero fields mean the default.
type ProviderConfig struct {
	// Client is the way to the provider; required.
	Client *Client
	// Attempts is how often a request is sent at most. 3; 1 means never again.
	Attempts int
	// Backoff is the pause before the second attempt; it doubles from one to the
	// next. 500 ms.
	Backoff time.Duration
	// MaxWait is the longest pause. A provider that asks for a longer one (Retry-After)
	// is not waited for; what it asked for goes to whoever sent the turn. 30 seconds.
	MaxWait time.Duration
	// Concurrency is how many calls may be under way at once. 256.
	Concurrency int
	// Queue is how long a call waits for its place among them. 10 seconds.
	Queue time.Duration
	// Faults is how many faults in a row open the breaker, and Rest how long it then
	// stays open before a call may try again. 10, and 10 seconds.
	Faults int
	Rest   time.Duration
}

// Provider asks a model and outlives small faults of whoever serves it. See the
// package comment, Retries. It is safe for use by many turns at once.
type Provider struct {
	client   *Client
	attempts int
	backoff  time.Duration
	maxWait  time.Duration
	places   chan struct{} // one for each call that is under way
	queue    time.Duration
	breaker  *breaker
}

// NewProvider returns a Provider over a client.
func NewProvider(cfg ProviderConfig) *Provider {
	return &Provider{
		client:   cfg.Client,
		attempts: cmp.Or(cfg.Attempts, 3),
		backoff:  cmp.Or(cfg.Backoff, 500*time.Millisecond),
		maxWait:  cmp.Or(cfg.MaxWait, 30*time.Second),
		places:   make(chan struct{}, cmp.Or(cfg.Concurrency, 256)),
		queue:    cmp.Or(cfg.Queue, 10*time.Second),
		breaker:  &breaker{threshold: cmp.Or(cfg.Faults, 10), rest: cmp.Or(cfg.Rest, 10*time.Second)},
	}
}

// Ask is Client.Ask, with more than one attempt where the earlier ones certainly made
// the model do nothing. The bounds of the client hold for all attempts together.
func (p *Provider) Ask(ctx context.Context, body []byte, stream bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := p.enter(ctx); err != nil {
			yield(Event{}, err)
			return
		}
		defer func() { <-p.places }()
		x, leave, err := p.open(ctx, body, stream)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer x.close()
		// Said at the end, and in any case: an answer that is left says nothing.
		said := saysNothing
		defer func() { leave.tell(said) }()
		x.read(func(ev Event, err error) bool {
			switch {
			case ev.Response != nil && ev.Response.Status != statusFailed:
				// An incomplete answer is a fault of the turn; the provider works.
				said = healthy
			case err != nil:
				said = blame(ctx, err)
			}
			return yield(ev, err)
		})
	}
}

// enter waits for a place among the calls that are under way.
func (p *Provider) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	full := time.NewTimer(p.queue)
	defer full.Stop()
	select {
	case p.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-full.C:
		err := agent.Errorf(agent.KindRateLimited, "All %d calls to the provider that may run at once are taken; try again later.", cap(p.places))
		err.RetryAfter = p.queue
		return err
	}
}

// open brings an exchange about. It alone is ever repeated: what it returns without an
// error has been accepted by the provider and is read once.
func (p *Provider) open(ctx context.Context, body []byte, stream bool) (*exchange, *permit, error) {
	began := time.Now()
	var last error
	for n := 1; ; n++ {
		leave, rest := p.breaker.enter()
		switch {
		case leave != nil:
		case last != nil: // it opened on faults like this one, which says more
			return nil, nil, tried(last, n-1)
		default:
			return nil, nil, resting(rest)
		}
		x, err := p.client.open(ctx, body, stream, p.client.total-time.Since(began))
		if err == nil {
			if leave.probe {
				// The others need not wait until this one has been read.
				leave.tell(healthy)
			}
			return x, leave, nil
		}
		leave.tell(blame(ctx, err))
		if last = err; n >= p.attempts || !unpaid(err) {
			return nil, nil, tried(last, n)
		}
		pause := p.pause(n, err)
		if pause > p.maxWait || pause >= p.client.total-time.Since(began) || outlives(ctx, pause) {
			// Nobody gains by a wait that cannot end in an answer.
			return nil, nil, tried(last, n)
		}
		if !sleep(ctx, pause) {
			return nil, nil, ended(ctx)
		}
	}
}

// tried tells the log how often a request was sent in vain.
func tried(err error, attempts int) error {
	if e := (*agent.Error)(nil); attempts > 1 && errors.As(err, &e) {
		return e.Because(fmt.Errorf("%d attempts, the last one: %w", attempts, e.Err))
	}
	return err
}

// unpaid reports whether a request that failed like this certainly made the model do
// nothing: it was never sent, or the provider refused it in so many words. A
// connection that dropped between the two proves nothing, so it does not count.
func unpaid(err error) bool {
	if s := (*StatusError)(nil); errors.As(err, &s) {
		// No pause brings back a budget that is used up.
		return passing(s.Status) && s.Code != "insufficient_quota"
	}
	return errors.Is(err, errUnsent)
}

// statusOverloaded is what some providers answer when they have too much to do.
const statusOverloaded = 529

// passing reports whether a status is a refusal that another attempt may not meet.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		statusOverloaded:
		return true
	}
	return false
}

// blame says what an error tells of the provider. That it refuses a request for what
// stands in it shows that it works.
func blame(ctx context.Context, err error) verdict {
	if ctx.Err() != nil {
		return saysNothing
	}
	if s := (*StatusError)(nil); errors.As(err, &s) && s.Status < 500 && !passing(s.Status) {
		return healthy
	}
	return faulty
}

// pause is how long to wait after attempt n: what the provider asks for, or else twice
// as long each time. Chance keeps the turns that failed together from coming back
// together; it never shortens what the provider asked for.
func (p *Provider) pause(n int, err error) time.Duration {
	if e := (*agent.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		if e.RetryAfter >= p.maxWait {
			return e.RetryAfter
		}
		return min(e.RetryAfter+rand.N(e.RetryAfter/10+1), p.maxWait)
	}
	d := p.maxWait
	if n < 16 {
		d = min(p.backoff<<(n-1), d)
	}
	return d/2 + rand.N(d/2+1)
}

// resting is the fault of a call that the breaker keeps away.
func resting(wait time.Duration) error {
	err := agent.Errorf(agent.KindProviderFailed,
		"The provider failed too often in a row and is left alone for a moment; try again later.")
	err.RetryAfter = wait
	return err
}

// outlives reports whether a wait is over only after ctx.
func outlives(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= wait
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func ended(ctx context.Context) error { return fmt.Errorf("ask the model: %w", ctx.Err()) }
