package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/store"
)

// Bus carries hints and live events between nodes. Nothing depends on it: a message that
// is lost makes things later, and without a bus they come with the next look at the
// store.
type Bus interface {
	// Follow returns a copy of the log that another node has of a running turn, for a
	// reader who has seen the events up to after. It is kept up to date, and closed when
	// the owner closes its own or is lost. False means that no node has answered in time.
	Follow(ctx context.Context, key agent.TurnKey, after int64) (*events.Log, bool)
	// Moved tells the other nodes that a turn has begun, ended or got another owner.
	Moved(key agent.TurnKey)
	// OnMoved registers who is told when another node says so. It returns quickly.
	OnMoved(tell func(agent.TurnKey))
}

// node is this process among those that share a store. Every turn that it runs has its
// lease, and every write of it the epoch of its claim, so that whatever becomes of a
// node, a turn has one writer (docs/lease).
type node struct {
	store.Leasing
	owner string
	lease time.Duration

	doubted chan agent.TurnKey // turns that run here, of which another node has said something

	// seen is when takeOver last found the store there, back when it was there again after
	// a gap. Nobody else uses them.
	seen, back time.Time
}

const (
	// takeoverEvery is how often a node looks for turns that nobody runs.
	takeoverEvery = time.Second
	// renewBatch is how many leases one statement renews.
	renewBatch = 1000
	// openTime bounds the commit by which a turn begins, goes on, or is ended for its
	// owner: its client can send the request again, to another node if need be.
	openTime = 10 * time.Second
	// maxOvertaken is how often something is begun anew because others are quicker.
	maxOvertaken = 100
	// maxDoubts is how many hints of other nodes about turns that run here may wait.
	maxDoubts = 1024
)

// errLost ends the run of a turn that this node has no more. Nothing more is written.
var errLost = errors.New("another node runs the turn")

// newNode returns this process as a node with a name of its own.
func newNode(s store.Leasing, lease time.Duration) *node {
	return &node{Leasing: s, owner: "n_" + strings.ToLower(rand.Text()), lease: lease,
		seen: time.Now(), doubted: make(chan agent.TurnKey, maxDoubts)}
}

// claim is what a claim of this node is written with; of a process that is alone it is
// nothing.
func (n *node) claim() store.Lease {
	if n == nil {
		return store.Lease{}
	}
	return store.Lease{Owner: n.owner, For: n.lease}
}

// overtaken reports whether a write was refused because another node was quicker. It is
// worth looking again then.
func (n *node) overtaken(err error) bool {
	if n == nil {
		return false
	}
	active := (*store.ActiveError)(nil)
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrState) || errors.Is(err, store.ErrExists) || errors.As(err, &active)
}

// loses reports whether a run ends with the error of one of its writes. The turn is
// another node's, or it will be: the store could not be reached for as long as a write
// may take, and what the write has come to is for the next owner to read.
func (n *node) loses(err error) bool {
	return n != nil && (errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnknown) || agent.KindOf(err) == agent.KindUnavailable)
}

// tell wakes those who wait for a turn, here and on other nodes.
func (p *Pipeline) tell(key agent.TurnKey) {
	p.moves.has(key)
	if p.Bus != nil {
		p.Bus.Moved(key)
	}
}

// heard is told by the bus that a turn has moved.
func (p *Pipeline) heard(key agent.TurnKey) {
	p.moves.has(key)
	if p.runningTurn(key) == nil {
		return
	}
	select {
	case p.node.doubted <- key:
	default: // the next renewal of all leases finds out
	}
}

// keepLeases renews the leases of the turns that run here, until ctx ends.
func (p *Pipeline) keepLeases(ctx context.Context) {
	tick := time.NewTicker(p.node.lease / 3)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err = p.renew(ctx, p.claims())
		case key := <-p.node.doubted:
			if r := p.runningTurn(key); r != nil {
				err = p.renew(ctx, []store.Claim{r.claim})
			}
		}
		if err != nil && ctx.Err() == nil {
			p.Log.Error("renew leases", "error", err)
		}
	}
}

// claims returns those of the turns that run here.
func (p *Pipeline) claims() []store.Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	claims := make([]store.Claim, 0, len(p.running))
	for _, r := range p.running {
		claims = append(claims, r.claim)
	}
	return claims
}

// renew renews leases, and lets go of the turns that are not this node's any more.
func (p *Pipeline) renew(ctx context.Context, claims []store.Claim) error {
	// A renewal that comes after the lease is worth nothing.
	ctx, cancel := context.WithTimeout(ctx, p.node.lease)
	defer cancel()
	for batch := range slices.Chunk(claims, renewBatch) {
		lost, err := p.node.Renew(ctx, p.node.owner, batch, p.node.lease)
		if err != nil {
			return err
		}
		for _, c := range batch {
			if slices.Contains(lost, c.Key) {
				p.letGo(c)
			}
		}
	}
	return nil
}

// letGo breaks off a run whose turn this node has no more. Its followers find the log
// closed and look elsewhere.
func (p *Pipeline) letGo(c store.Claim) {
	p.mu.Lock()
	r := p.running[c.Key]
	p.mu.Unlock()
	if r == nil || r.claim != c {
		return // it has ended here, or runs again
	}
	r.journal.lose()
	r.cancel(errLost)
}

// release gives a turn up that goes on elsewhere. A process that is alone has nothing to
// give up.
func (p *Pipeline) release(ctx context.Context, c store.Claim) {
	if p.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.node.lease) // then everybody may have it
	defer cancel()
	if err := p.node.Release(ctx, p.node.owner, []store.Claim{c}); err != nil {
		p.Log.Warn("release a turn; it is taken over when its lease has run out", "turn", c.Key.String(), "error", err)
	}
	p.tell(c.Key)
}

// takeOvers looks at once and from time to time for turns that nobody runs, until ctx
// ends.
func (p *Pipeline) takeOvers(ctx context.Context) {
	tick := time.NewTicker(min(takeoverEvery, p.node.lease/6, p.Limits.SweepEvery))
	defer tick.Stop()
	for {
		if err := p.takeOver(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error("take turns over", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeOver takes up turns that should run and that nobody runs, those of a node that
// died or drained above all, a bounded number at a time.
func (p *Pipeline) takeOver(ctx context.Context) error {
	if room := p.Store.Room(); room != nil {
		return nil // their ends could not be written, and each new beginning would ask the model again
	}
	for !p.isDraining() {
		begun := time.Now()
		claims, err := p.claimLeft(ctx, begun)
		if err != nil {
			return err
		}
		p.node.seen = begun
		each(p.Log, claims, func(c store.Claim) {
			p.Telemetry.TakenOver()
			p.Log.Info("turn taken over", "turn", c.Key.String(), "epoch", c.Epoch)
			if err := p.resumeClaimed(ctx, c); err != nil {
				p.Log.Error("resume turn", "turn", c.Key.String(), "error", err)
			}
		})
		if len(claims) < atOnce {
			break
		}
	}
	return nil
}

// claimLeft claims turns that nobody runs. When the store was away for a while, or this
// process stood still, all leases have run out, and their owners live: they get the time to
// renew them, this node too. Nor does it wait for a store that does not answer: what it
// would find when that is back says nothing.
func (p *Pipeline) claimLeft(ctx context.Context, now time.Time) ([]store.Claim, error) {
	n := p.node
	ctx, cancel := context.WithTimeout(ctx, min(n.lease/6, 2*time.Second))
	defer cancel()
	if now.Sub(n.seen) > n.lease/3 {
		n.back = now
	}
	if now.Sub(n.back) < n.lease/2 {
		_, err := p.Store.IdleQueues(ctx) // whether it is there
		return nil, err
	}
	return n.Takeover(ctx, n.owner, n.lease, atOnce)
}

// resumeClaimed resumes a turn that this node has taken over. It may have been its own
// before.
func (p *Pipeline) resumeClaimed(ctx context.Context, c store.Claim) error {
	if r := p.runningTurn(c.Key); r != nil {
		p.letGo(r.claim)
		limit := time.NewTimer(p.Limits.SettleTime)
		defer limit.Stop()
		select {
		case <-r.done:
		case <-limit.C:
			return fmt.Errorf("its last run has not ended within %s", p.Limits.SettleTime)
		}
	}
	err := p.resume(ctx, c)
	if p.isDraining() && p.runningTurn(c.Key) == nil {
		p.release(ctx, c)
	}
	if p.node.overtaken(err) || agent.KindOf(err) == agent.KindNotFound {
		return nil // another node has it, or nobody any more
	}
	return err
}

// watch looks from time to time how far the turns have come that somebody waits for
// here, until ctx ends.
func (p *Pipeline) watch(ctx context.Context) {
	tick := time.NewTicker(p.Limits.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.moves.look(ctx, p.node); err != nil && ctx.Err() == nil {
				p.Log.Error("look how far the turns of other nodes have come", "error", err)
			}
		}
	}
}

// patient gives a reader who waits for a turn the time in which the store may change its
// primary.
func (p *Pipeline) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.node == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.Limits.SettleTime)
}
