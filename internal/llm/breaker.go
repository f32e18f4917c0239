package llm

import (
	"sync"
	"time"
)

// breaker keeps calls away from a provider that fails again and again, so that it can
// recover and nobody waits for what will not come. After a number of faults without a
// success between them it opens; after a rest it lets one call through as a probe, and
// what becomes of that one closes it or opens it anew.
type breaker struct {
	threshold int
	rest      time.Duration

	// mu guards what follows.
	mu      sync.Mutex
	faults  int       // since the last success
	until   time.Time // when the rest is over; zero when closed
	probing bool      // a probe is under way
}

// verdict is what a call says of the provider's health.
type verdict int

const (
	saysNothing verdict = iota // the caller went away
	healthy                    // an answer, or a refusal that is about the request
	faulty
)

// permit is the leave to make a call.
type permit struct {
	b     *breaker
	probe bool
}

// enter asks for leave. Without it, wait is how long to stay away at least.
func (b *breaker) enter() (p *permit, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return &permit{b: b}, 0
	}
	if wait := time.Until(b.until); wait > 0 || b.probing {
		return nil, max(wait, time.Second)
	}
	b.probing = true
	return &permit{b: b, probe: true}, 0
}

// tell reports what became of the call, so far: a probe that was told of counts as an
// ordinary call from then on. Ordinary calls that end while the breaker is open began
// before it opened and say nothing new.
func (p *permit) tell(v verdict) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case p.probe:
		p.probe, b.probing = false, false
		switch v {
		case healthy:
			b.faults, b.until = 0, time.Time{}
		case faulty:
			b.until = time.Now().Add(b.rest)
		}
	case !b.until.IsZero():
	case v == healthy:
		b.faults = 0
	case v == faulty:
		if b.faults++; b.faults >= b.threshold {
			b.until = time.Now().Add(b.rest)
		}
	}
}
