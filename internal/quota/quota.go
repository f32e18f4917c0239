package quota

import (
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

// Limits are the bounds of one organisation; 0 is none.
type Limits struct {
	// Requests bounds those of each of its callers.
	Requests Rate
	// Streams is how many streams each of its callers may have open.
	Streams int
	// Turns is how many turns of the organisation may run at a time.
	Turns int
	// Sessions is how many sessions it may have.
	Sessions int
}

// Rate is so many requests a second, and Burst at once after a pause.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Plans say which organisation has which limits.
type Plans struct {
	Default       Limits
	Organisations map[agent.OrgID]Limits
}

// Of returns the limits of an organisation.
func (p Plans) Of(org agent.OrgID) Limits {
	if own, ok := p.Organisations[org]; ok {
		return own
	}
	return p.Default
}

// User is who is counted: a user of an organisation, whatever key he uses.
type User struct {
	Org  agent.OrgID
	User agent.UserID
}

// UserOf returns whom the requests of a caller count for.
func UserOf(c agent.Caller) User { return User{Org: c.Org, User: c.User} }

// Counter counts what is under way, by key. The zero value is ready.
type Counter[K comparable] struct {
	mu sync.Mutex // guards n
	n  map[K]int
}

// Enter counts one more, unless there are that many already.
func (c *Counter[K]) Enter(k K, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[k] >= most {
		return false
	}
	c.add(k)
	return true
}

// Add counts one more in any case.
func (c *Counter[K]) Add(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(k)
}

func (c *Counter[K]) add(k K) {
	if c.n == nil {
		c.n = map[K]int{}
	}
	c.n[k]++
}

// Leave counts one less.
func (c *Counter[K]) Leave(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[k]--; c.n[k] <= 0 {
		delete(c.n, k)
	}
}

// Of returns how many there are.
func (c *Counter[K]) Of(k K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[k]
}
