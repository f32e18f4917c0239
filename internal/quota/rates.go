package quota

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets bounds how many callers are told apart.
const maxBuckets = 10_000

// Rates holds callers to their rates, each with a bucket of his own. There are never more
// than so many buckets: one that is full again is as good as none, and when all are in use
// the callers that come share one.
type Rates struct {
	most int
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	buckets map[User]*rate.Limiter
	shared  *rate.Limiter
	swept   time.Time
}

// NewRates returns the buckets of a server.
func NewRates() *Rates {
	return &Rates{most: maxBuckets, now: time.Now, buckets: map[User]*rate.Limiter{}}
}

// Take takes one request in, or returns after which time it would.
func (r *Rates) Take(u User, at Rate) (wait time.Duration, ok bool) {
	if at.PerSecond <= 0 {
		return 0, true
	}
	now := r.now()
	l := r.bucket(u, at, now)
	if l.AllowN(now, 1) {
		return 0, true
	}
	// Reserved and given back at once, to learn when there will be one.
	next := l.ReserveN(now, 1)
	wait = next.DelayFrom(now)
	next.CancelAt(now)
	return wait, false
}

func (r *Rates) bucket(u User, at Rate, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.buckets[u]; l != nil {
		return l
	}
	if len(r.buckets) >= r.most {
		r.sweep(now)
	}
	l := rate.NewLimiter(rate.Limit(at.PerSecond), max(at.Burst, 1))
	if len(r.buckets) < r.most {
		r.buckets[u] = l
		return l
	}
	if r.shared == nil {
		r.shared = l
	}
	return r.shared
}

// sweep forgets the buckets that are full again, once a second at most.
func (r *Rates) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return
	}
	r.swept = now
	for u, l := range r.buckets {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(r.buckets, u)
		}
	}
}
