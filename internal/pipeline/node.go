package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

	started time.Time
	// away tells that the store has failed and was not seen to be back.
	away atomic.Bool
	// These are in nanoseconds since started: when all leases were last renewed, and when
	// the store was last away.
	renewed, wasAway atomic.Int64
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
		started: time.Now(), doubted: make(chan agent.TurnKey, maxDoubts)}
}

// since returns how long ago that was.
func (n *node) since(when *atomic.Int64) time.Duration {
	return time.Since(n.started) - time.Duration(when.Load())
}

// notes remembers that the store has failed.
func (n *node) notes(err error) error {
	if err != nil {
		n.away.Store(true)
		n.wasAway.Store(int64(time.Since(n.started)))
	}
	return err
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
			err = p.renewAll(ctx)
		case key := <-p.node.doubted:
			if r := p.runningTurn(key); r != nil {
				err = p.renew(ctx, []store.Claim{r.claim})
			}
		}
		if p.node.notes(err) != nil && ctx.Err() == nil {
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

// renewAll renews the leases of all turns that run here.
func (p *Pipeline) renewAll(ctx context.Context) error {
	begun := time.Since(p.node.started)
	if err := p.renew(ctx, p.claims()); err != nil {
		return err
	}
	p.node.renewed.Store(int64(begun))
	return nil
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

// takeOver takes up turns that should run and that nobody runs, those of a node that
// died or drained above all, a bounded number at a time.
func (p *Pipeline) takeOver(ctx context.Context) error {
	if room := p.Store.Room(); room != nil {
		return nil // their ends could not be written, and each new beginning would ask the model again
	}
	if mayTake, err := p.mayTake(ctx); !mayTake {
		return err
	}
	for !p.isDraining() {
		// After a pause of this process its leases may have run out, and nobody may have
		// noticed. Then its turns are still its own.
		if p.node.since(&p.node.renewed) > p.node.lease/2 {
			if err := p.node.notes(p.renewAll(ctx)); err != nil {
				return err
			}
		}
		claims, err := p.claimLeft(ctx)
		if p.node.notes(err) != nil {
			return err
		}
		each(claims, func(c store.Claim) {
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

// mayTake reports whether a lease that has run out says anything. After an outage of the
// store all have, and their owners live: they get the time to renew them.
func (p *Pipeline) mayTake(ctx context.Context) (bool, error) {
	if p.node.away.Load() {
		// It must not be a takeover that finds the store back.
		ctx, cancel := p.briefly(ctx)
		defer cancel()
		if _, err := p.Store.IdleQueues(ctx); err != nil {
			return false, p.node.notes(err)
		}
		p.node.wasAway.Store(int64(time.Since(p.node.started)))
		p.node.away.Store(false)
	}
	return p.node.wasAway.Load() == 0 || p.node.since(&p.node.wasAway) > p.node.lease/2, nil
}

// briefly bounds a call that must find the store there: one that waits until it is back
// knows nothing of the time in between.
func (p *Pipeline) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(p.node.lease/3, 2*time.Second))
}

// claimLeft claims turns that nobody runs.
func (p *Pipeline) claimLeft(ctx context.Context) ([]store.Claim, error) {
	ctx, cancel := p.briefly(ctx)
	defer cancel()
	return p.node.Takeover(ctx, p.node.owner, p.node.lease, atOnce)
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
