package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// hooks stands between the pipeline and its store, so that a test can let a write
// fail, or let something else happen in the very moment of it. A nil hook does
// nothing.
type hooks struct {
	pipeline.Store
	// append is called before a transition is written; its error refuses it.
	append func(context.Context, store.Append) error
	// appended is called when it has been written.
	appended func(store.Append)
	// open and opened are the same for a new turn.
	open   func(store.NewTurn) error
	opened func(store.NewTurn)
	// session is called when a session has been read.
	session func()
	// transcript is called before a transcript is read; its error refuses it.
	transcript func() error
	// steps is called when a journal has been read.
	steps func()
	// swept is called when a sweep has looked for unfinished turns.
	swept func()
	// expired adds turns to those whose time is up.
	expired []agent.TurnKey
}

// over returns the hooks as a store that does what the one behind them does.
func (h *hooks) over(behind any) pipeline.Store {
	if leases, ok := behind.(store.Leasing); ok {
		return struct {
			*hooks
			store.Leasing
		}{h, leases}
	}
	return h
}

// withHooks lets a test see and refuse each commit; so that it can tell them apart, each
// step that could wait for another one's gets its own.
func withHooks(h *hooks) func(*rig) {
	return func(r *rig) { r.hooks, r.times.Gather = h, -1 }
}

func (h *hooks) AppendSteps(ctx context.Context, a store.Append) error {
	if h.append != nil {
		if err := h.append(ctx, a); err != nil {
			return err
		}
	}
	err := h.Store.AppendSteps(ctx, a)
	if err == nil && h.appended != nil {
		h.appended(a)
	}
	return err
}

func (h *hooks) OpenTurn(ctx context.Context, n store.NewTurn) error {
	if h.open != nil {
		if err := h.open(n); err != nil {
			return err
		}
	}
	err := h.Store.OpenTurn(ctx, n)
	if err == nil && h.opened != nil {
		h.opened(n)
	}
	return err
}

func (h *hooks) Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error) {
	s, err := h.Store.Session(ctx, org, id)
	if h.session != nil {
		h.session()
	}
	return s, err
}

func (h *hooks) Transcript(ctx context.Context, org agent.OrgID, id agent.SessionID, after, before int64) ([]store.TurnItems, error) {
	if h.transcript != nil {
		if err := h.transcript(); err != nil {
			return nil, err
		}
	}
	return h.Store.Transcript(ctx, org, id, after, before)
}

func (h *hooks) Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error) {
	steps, err := h.Store.Steps(ctx, k)
	if h.steps != nil {
		h.steps()
	}
	return steps, err
}

func (h *hooks) Unfinished(ctx context.Context) ([]agent.TurnKey, error) {
	keys, err := h.Store.Unfinished(ctx)
	if h.swept != nil {
		h.swept()
	}
	return keys, err
}

func (h *hooks) Expired(ctx context.Context, now time.Time) ([]agent.TurnKey, error) {
	keys, err := h.Store.Expired(ctx, now)
	return append(keys, h.expired...), err
}

// has tells whether a transition holds a step of a kind.
func has(a store.Append, kind agent.StepKind) bool {
	return slices.ContainsFunc(a.Steps, func(s agent.Step) bool { return s.Kind == kind })
}

// once returns f for its first call that is wanted, and nothing afterwards.
func once(wanted func(store.Append) bool, f func(context.Context, store.Append) error) func(context.Context, store.Append) error {
	var mu sync.Mutex // guards done
	done := false
	return func(ctx context.Context, a store.Append) error {
		mu.Lock()
		first := !done && wanted(a)
		done = done || first
		mu.Unlock()
		if !first {
			return nil
		}
		return f(ctx, a)
	}
}
