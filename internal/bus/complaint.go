package bus

import (
	"log/slog"
	"sync"
	"time"
)

// complainEvery is how often one kind of trouble is logged at most.
const complainEvery = 10 * time.Second

// complaint counts one kind of trouble and logs it now and then: whoever can send us
// messages must not be able to fill the log.
type complaint struct {
	log  *slog.Logger
	what string

	mu     sync.Mutex // guards what follows
	count  int64
	logged time.Time
}

// note counts one more.
func (c *complaint) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if time.Since(c.logged) < complainEvery {
		return
	}
	c.logged = time.Now()
	c.log.Warn(c.what, "count", c.count, "latest", err)
}

// total returns how many there were.
func (c *complaint) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
