package pipeline

import (
	"context"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// Erase erases a session of the caller's organisation with everything under it. A turn
// of it that runs is broken off at once, its model call and its tool with it.
func (p *Pipeline) Erase(ctx context.Context, by agent.Caller, id agent.SessionID) error {
	unlock := p.sessionLocks.lock(by.Org, id)
	defer unlock()
	var active agent.TurnKey
	if p.Bus != nil {
		at, err := p.Store.Standing(ctx, agent.TurnKey{Org: by.Org, Session: id})
		if err != nil {
			return err
		}
		active = agent.TurnKey{Org: by.Org, Session: id, Turn: at.Active}
	}
	if err := p.Store.DeleteSession(ctx, by.Org, id); err != nil {
		return err
	}
	p.transcripts.forget(store.SessionKey{Org: by.Org, Session: id})
	// In this order: a turn that is broken off first would look for its journal.
	for _, key := range p.runningIn(by.Org, id) {
		p.interrupt(key)
	}
	if active.Turn != "" {
		p.tell(active) // it may run on another node
	}
	return nil
}

// retentionBatch is how many sessions a sweep looks at.
const retentionBatch = 500

// retain erases sessions that nobody has used for the length of the retention. Each
// sweep goes on where the one before has stopped.
func (p *Pipeline) retain(ctx context.Context) error {
	if p.Retention <= 0 {
		return nil
	}
	erased, last, err := p.Store.EraseIdle(ctx, p.Now().Add(-p.Retention), p.retained, retentionBatch)
	p.retained = last
	if erased > 0 {
		p.Log.Info("idle sessions erased", "sessions", erased, "retention", p.Retention)
	}
	return err
}

// The bounds of a look at the audit log: organisations, and entries of each.
const (
	trimOrgs  = 20
	trimBatch = 500
)

// trimAudit takes entries out of the audit log whose retention is over, by whole days: each
// day has one entry that says so. Each sweep goes on where the one before has stopped.
func (p *Pipeline) trimAudit(ctx context.Context) error {
	if p.AuditRetention <= 0 {
		return nil
	}
	before := p.Now().Add(-p.AuditRetention).UTC().Truncate(24 * time.Hour)
	for range trimOrgs {
		_, org, err := p.Store.TrimAudit(ctx, before, p.trimmed, trimBatch)
		if err != nil {
			return err
		}
		if p.trimmed = org; org == "" {
			return nil
		}
	}
	return nil
}
