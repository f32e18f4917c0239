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

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

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
	// Concurrency is how many calls may be under way at once. 10,000.
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
	client  *Client
	backoff time.Duration
	maxWait time.Duration
	retry   failsafe.Executor[opened]
	places  bulkhead.Bulkhead[any] // one for each call that is under way
	most    int                    // of them
	queue   time.Duration
	breaker *breaker
}

// NewProvider returns a Provider over a client.
func NewProvider(cfg ProviderConfig) *Provider {
	most := cmp.Or(cfg.Concurrency, 10_000)
	return &Provider{
		client:  cfg.Client,
		backoff: cmp.Or(cfg.Backoff, 500*time.Millisecond),
		maxWait: cmp.Or(cfg.MaxWait, 30*time.Second),
		retry: failsafe.With(retrypolicy.NewBuilder[opened]().
			HandleIf(func(_ opened, err error) bool { return againOf(err) != nil }).
			WithDelayFunc(func(x failsafe.ExecutionAttempt[opened]) time.Duration { return againOf(x.LastError()).pause }).
			WithMaxAttempts(cmp.Or(cfg.Attempts, 3)).
			ReturnLastFailure().
			Build()),
		places:  bulkhead.New[any](uint(most)),
		most:    most,
		queue:   cmp.Or(cfg.Queue, 10*time.Second),
		breaker: newBreaker(cmp.Or(cfg.Faults, 10), cmp.Or(cfg.Rest, 10*time.Second)),
	}
}

// Ask is Client.Ask, with more than one attempt where the earlier ones certainly made
// the model do nothing. The bounds of the client hold for all attempts together. What
// it returns is for one iteration.
func (p *Provider) Ask(ctx context.Context, request *Wire, stream bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := p.enter(ctx); err != nil {
			yield(Event{}, err)
			return
		}
		defer p.places.ReleasePermit()
		x, leave, err := p.open(ctx, request, stream)
		if err != nil {
			yield(Event{}, err)
			return
		}
		request = nil // sent, and it is large: nobody needs it while the answer comes
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
	err := p.places.AcquirePermitWithMaxWait(ctx, p.queue)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bulkhead.ErrFull):
		full := agent.Errorf(agent.KindRateLimited, "All %d calls to the provider that may run at once are taken; try again later.", p.most)
		full.RetryAfter = p.queue
		return full
	}
	return ended(ctx)
}

// opened is an exchange that the provider has accepted, with the leave for it.
type opened struct {
	exchange *exchange
	leave    *permit
}

// again marks a fault after which the request is sent once more.
type again struct {
	pause time.Duration
	err   error
}

func (a *again) Error() string { return a.err.Error() }

func (a *again) Unwrap() error { return a.err }

func againOf(err error) *again {
	a := (*again)(nil)
	_ = errors.As(err, &a)
	return a
}

// open brings an exchange about. It alone is ever repeated: what it returns without an
// error has been accepted by the provider and is read once.
func (p *Provider) open(ctx context.Context, request *Wire, stream bool) (*exchange, *permit, error) {
	began, attempts := time.Now(), 0
	var last error
	got, err := p.retry.WithContext(ctx).Get(func() (opened, error) {
		leave, rest := p.breaker.enter()
		switch {
		case leave != nil:
		case last != nil: // it opened on faults like this one, which says more
			return opened{}, last
		default:
			return opened{}, resting(rest)
		}
		attempts++
		x, err := p.client.open(ctx, request, stream, p.client.total-time.Since(began))
		if err == nil {
			if leave.probe {
				// The others need not wait until this one has been read.
				leave.tell(healthy)
			}
			return opened{x, leave}, nil
		}
		leave.tell(blame(ctx, err))
		last = err
		pause := p.pause(attempts, err)
		if !unpaid(err) || pause > p.maxWait || pause >= p.client.total-time.Since(began) || outlives(ctx, pause) {
			// Paid for, or nobody gains by a wait that cannot end in an answer.
			return opened{}, err
		}
		return opened{}, &again{pause, err}
	})
	switch a := againOf(err); {
	case err == nil:
		return got.exchange, got.leave, nil
	case ctx.Err() != nil:
		return nil, nil, ended(ctx)
	case a != nil:
		err = a.err
	}
	return nil, nil, tried(err, attempts)
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

func ended(ctx context.Context) error { return fmt.Errorf("ask the model: %w", ctx.Err()) }
