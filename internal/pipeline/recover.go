package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/store"
)

// Recover takes up the turns that nobody runs and starts the sweep, which ends waiting
// turns whose time is up, takes up turns whose end could not be written, and erases
// sessions whose retention is over. Where there are other nodes it renews the leases of
// the turns that run here, too, and takes turns up in the moments after it. Call it once,
// before the first request.
func (p *Pipeline) Recover(ctx context.Context) error {
	p.mu.Lock()
	if p.sweeping {
		p.mu.Unlock()
		return errors.New("pipeline: Recover was called twice")
	}
	p.sweeping = true
	sweeping, stop := context.WithCancel(context.Background())
	p.stop = stop
	if p.node != nil {
		var leasing context.Context
		leasing, p.stopLeasing = context.WithCancel(context.Background())
		p.leasing.Go(func() { p.keepLeases(leasing) })
	}
	p.mu.Unlock()
	if p.node != nil {
		p.work.Go(func() { p.takeOvers(sweeping) })
		p.work.Go(func() { p.watch(sweeping) })
	}
	switch err := p.sweep(ctx); {
	case err == nil:
	case p.node == nil:
		return fmt.Errorf("recover unfinished turns: %w", err)
	default:
		// The next sweep is as good, and other nodes sweep too: a database that is slow for
		// a moment keeps no node from starting.
		p.Log.Error("sweep", "error", err)
	}
	p.work.Go(func() { p.sweepOften(sweeping) })
	p.work.Go(func() { p.eraseOften(sweeping) })
	return nil
}

// sweepOften sweeps until ctx ends.
func (p *Pipeline) sweepOften(ctx context.Context) {
	tick := time.NewTicker(p.Limits.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.sweep(ctx); err != nil && ctx.Err() == nil {
				p.Log.Error("sweep", "error", err)
			}
		}
	}
}

func (p *Pipeline) sweep(ctx context.Context) error {
	if p.node == nil {
		if err := p.takeUp(ctx); err != nil {
			return err
		}
	}
	idle, err := p.Store.IdleQueues(ctx)
	if err != nil {
		return err
	}
	each(p.Log, idle, func(key agent.TurnKey) {
		unlock := p.sessionLocks.lock(key.Org, key.Session)
		defer unlock()
		p.startNext(ctx, key.Org, key.Session)
	})
	expired, err := p.Store.Expired(ctx, p.Now())
	if err != nil {
		return err
	}
	each(p.Log, expired, func(key agent.TurnKey) {
		if err := p.expire(ctx, key); err != nil {
			p.Log.Error("expire turn", "turn", key.String(), "error", err)
		}
	})
	return errors.Join(p.retain(ctx), p.trimAudit(ctx))
}

// takeUp takes up all unfinished turns that do not run here. It is for a process that is
// alone; see takeOver.
func (p *Pipeline) takeUp(ctx context.Context) error {
	p.moves.all() // a session that is erased takes its queue along without a word
	unfinished, err := p.Store.Unfinished(ctx)
	if err != nil {
		return err
	}
	if room := p.Store.Room(); room != nil && len(unfinished) > 0 {
		// Its end could not be written, and each new beginning would ask the model again.
		p.Log.Error("unfinished turns wait", "turns", len(unfinished), "error", room)
		return nil
	}
	each(p.Log, unfinished, func(key agent.TurnKey) {
		if err := p.resume(ctx, store.Claim{Key: key}); err != nil {
			p.Log.Error("resume turn", "turn", key.String(), "error", err)
		}
	})
	return nil
}

// atOnce is how many turns a sweep works on at the same time. Each costs a commit, and
// commits that meet share the sync of the disk: a start does not wait for one per turn.
const atOnce = 64

// each calls do for all turns and returns when it is done with the last. One that panics is
// logged and left: a row that nobody can read must not take the others along, at every
// start anew.
func each[T any](log *slog.Logger, turns []T, do func(T)) {
	var work sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, t := range turns {
		slots <- struct{}{}
		work.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					log.Error("panic over a turn", "turn", fmt.Sprint(t), "panic", v, "stack", string(debug.Stack()))
				}
				<-slots
			}()
			do(t)
		})
	}
	work.Wait()
}

// resume takes a turn up from its journal, unless it runs here or is at rest. Where there
// are other nodes this one has claimed it.
func (p *Pipeline) resume(ctx context.Context, c store.Claim) error {
	key := c.Key
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	if p.runningTurn(key) != nil || p.isDraining() {
		return nil
	}
	t, err := p.Store.Turn(ctx, key)
	if err != nil || atRest(t.State) || t.Epoch != c.Epoch {
		return err
	}
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return err
	}
	s, err := p.Store.Session(ctx, key.Org, key.Session)
	if err != nil {
		return err
	}
	rt, end, err := p.restored(ctx, agent.Caller{Org: key.Org, User: t.User}, s, t, steps)
	asked := slices.ContainsFunc(steps, func(s agent.Step) bool { return s.Kind == agent.StepAsked })
	switch {
	case agent.KindOf(err) == agent.KindUnknownContext:
	case err != nil:
		return err // the store's; the next sweep tries again
	case !asked:
		// Only a turn that enters its mode is without its first request; all others have
		// it from the start.
		if unsaid := askedBefore(rt, s, steps); unsaid != nil {
			err = agent.Errorf(agent.KindInternal, "The turn's journal is incomplete. Send the turn again with a new turnId.").Because(unsaid)
		}
	}
	if err != nil {
		p.Log.Error("turn cannot go on", "turn", key.String(), "error", err)
		fault := agent.FaultOf(err)
		return p.endAtRest(ctx, t, agent.TurnFailed, &fault)
	}
	j := newJournal(p, c, steps)
	j.owned, j.ending = p.node != nil, end
	failpoint.Hit(failpoint.BeforeResume)
	defer failpoint.Hit(failpoint.AfterResume)
	if err := j.Append(ctx, agent.Step{Kind: agent.StepResumed, Resumed: &agent.Resumed{ReplaceFrom: j.nextEvent}}); err != nil {
		return err
	}
	rt.Run = p.Telemetry.GoOn(context.Background(), noted(context.Background(), rt), traceOf(steps), true)
	// Not before: a reader that found the log, but not yet in the journal that the text
	// it has seen is void, would go on behind that text.
	j.live = p.Hub.Open(key, j.nextEvent)
	p.Log.InfoContext(rt.Run.Within(ctx), "turn resumed", "turn", key.String(), "steps", len(steps))
	p.start(rt, j.journalled(), j, t.Deadline)
	p.tell(key)
	return nil
}

// errExpired says what a turn that is not running waited for in vain.
func errExpired(t agent.Turn) error {
	what := "tool results that did not come"
	if t.Queued {
		what = "the turns of its session before it"
	}
	return agent.Errorf(agent.KindTurnExpired, "The turn waited until %s for %s.", t.Deadline.UTC().Format(time.RFC3339), what)
}

// expire fails a turn that waited too long, for its client or for its session. One that
// waited for its user goes on: the model is told that nobody decided.
func (p *Pipeline) expire(ctx context.Context, key agent.TurnKey) error {
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	t, err := p.Store.Turn(ctx, key)
	if err != nil || t.State != agent.TurnWaiting && !t.Queued || t.Deadline.After(p.Now()) {
		return err
	}
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return err
	}
	fault := agent.FaultOf(errExpired(t))
	if !t.Queued && asksUser(steps) {
		err := p.expireApprovals(ctx, t, steps)
		switch {
		case p.node.overtaken(err):
			return nil
		case agent.KindOf(err) != agent.KindUnknownContext:
			return err
		}
		fault = agent.FaultOf(err) // it can never go on
	}
	if err := p.endAtRest(ctx, t, agent.TurnFailed, &fault); p.node.overtaken(err) {
		return nil // it has moved, or another node has found it
	} else if err != nil {
		return err
	}
	p.startNext(ctx, key.Org, key.Session)
	return nil
}

// Drain refuses new turns and waits for the running ones. When ctx ends first they
// are broken off where they stand; their journals take them up at the next start, or on
// another node at once.
func (p *Pipeline) Drain(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	if p.stop != nil {
		p.stop()
	}
	p.mu.Unlock()
	defer p.leasing.Wait()
	defer p.runners.close()
	if p.stopLeasing != nil {
		defer p.stopLeasing()
	}
	p.moves.all()
	done := make(chan struct{})
	go func() {
		p.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	for _, r := range p.running {
		r.cancel(errDrained)
	}
	n := len(p.running)
	p.mu.Unlock()
	select {
	case <-done:
		p.Log.Info("drained; turns go on after the restart", "turns", n)
		return nil
	case <-time.After(p.Limits.SettleTime):
		return fmt.Errorf("drain: %d turns did not stop within %s", n, p.Limits.SettleTime)
	}
}

// Draining reports whether Drain has begun.
func (p *Pipeline) Draining() bool { return p.isDraining() }

func (p *Pipeline) isDraining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}
