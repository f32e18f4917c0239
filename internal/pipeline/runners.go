package pipeline

import (
	"context"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/reasoner"
)

// maxIdle is how many goroutines wait for a next turn at most.
const maxIdle = 64

// runners are the goroutines of turns. One whose turn is over waits for another: its stack
// has grown to what SQLite needs, and that of a new one would be copied as often again
// (decision D135). What waits too long loses its stack to the garbage collector.
type runners struct {
	mu     sync.Mutex // guards what follows
	idle   []chan *turnRun
	closed bool
}

// turnRun is what goOn runs.
type turnRun struct {
	ctx       context.Context // the turn's, which ends with it
	stopTimer context.CancelFunc
	running   *running
	turn      *reasoner.Turn
	steps     []agent.Step
	journal   *journal
}

// takeSteps returns the steps, and forgets them: they have model requests in them, and the
// turn may be long.
func (t *turnRun) takeSteps() []agent.Step {
	steps := t.steps
	t.steps = nil
	return steps
}

// run has a goroutine run one turn.
func (r *runners) run(p *Pipeline, t *turnRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		// The last one to come is the likeliest to still have its stack.
		r.idle[n-1] <- t
		r.idle = r.idle[:n-1]
		return
	}
	go r.loop(p, t)
}

// loop runs turns until there are enough others to do so. It holds nothing of a turn that
// is over.
func (r *runners) loop(p *Pipeline, next *turnRun) {
	more := make(chan *turnRun, 1)
	for ok := true; ok; next, ok = <-more {
		p.goOn(next)
		*next = turnRun{}
		if !r.rest(more) {
			return
		}
	}
}

// rest reports whether another turn may come, or the end of next.
func (r *runners) rest(next chan *turnRun) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle) >= maxIdle {
		return false
	}
	r.idle = append(r.idle, next)
	return true
}

// close ends those that wait. Turns may still run.
func (r *runners) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, next := range r.idle {
		close(next)
	}
	r.idle = nil
}
