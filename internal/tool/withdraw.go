package tool

import (
	"maps"
	"sync"
	"sync/atomic"
)

// withdrawals are the tools of a registry that are not offered for the time being.
type withdrawals struct {
	mu      sync.Mutex // guards changes of why
	why     atomic.Pointer[map[string]string]
	changes atomic.Int64
}

// Withdraw keeps a tool out of the sets that are merged from now on, and says why. Turns
// whose tools are frozen keep it: what it does when it is called is its own matter.
func (r *Registry) Withdraw(name, why string) {
	r.withdrawn.set(func(tools map[string]string) { tools[name] = why })
}

// Restore takes a withdrawal back.
func (r *Registry) Restore(name string) {
	r.withdrawn.set(func(tools map[string]string) { delete(tools, name) })
}

// Withdrawn returns why a tool is withdrawn, "" when it is not.
func (r *Registry) Withdrawn(name string) string {
	if tools := r.withdrawn.why.Load(); tools != nil {
		return (*tools)[name]
	}
	return ""
}

// Changes counts the withdrawals and what came back: a set that was merged at another
// count may be out of date.
func (r *Registry) Changes() int64 { return r.withdrawn.changes.Load() }

// set changes a copy, so that readers need no lock.
func (w *withdrawals) set(change func(map[string]string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tools := map[string]string{}
	if old := w.why.Load(); old != nil {
		tools = maps.Clone(*old)
	}
	change(tools)
	w.why.Store(&tools)
	w.changes.Add(1)
}
