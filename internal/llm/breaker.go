package llm

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// breaker keeps calls away from a provider that fails again and again, so that it can
// recover and nobody waits for what will not come. After a number of faults without a
// success between them it opens; after a rest it lets one call through as a probe, and
// what becomes of that one closes it or opens it anew.
type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any]
}

func newBreaker(threshold int, rest time.Duration) *breaker {
	return &breaker{circuit: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(uint(max(threshold, 1))).WithSuccessThreshold(1).WithDelay(rest).Build()}
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
	if !b.circuit.TryAcquirePermit() {
		return nil, max(b.circuit.RemainingDelay(), time.Second)
	}
	return &permit{b: b, probe: b.circuit.IsHalfOpen()}, 0
}

// tell reports what became of the call, so far: a probe that was told of counts as an
// ordinary call from then on. Ordinary calls that end while the breaker is open began
// before it opened and say nothing new.
func (p *permit) tell(v verdict) {
	circuit := p.b.circuit
	switch {
	case !p.probe && !circuit.IsClosed():
	case v == healthy:
		circuit.RecordSuccess()
	case v == faulty:
		circuit.RecordFailure()
	case p.probe:
		// The breaker would wait for this probe for ever. Only a new half-open state
		// has a place for another one.
		circuit.Open()
		circuit.HalfOpen()
	}
	p.probe = false
}
