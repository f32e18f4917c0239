package aptix

import (
	"context"
	"net/http"
	"sync"
)

// door counts who is inside, so that the data is not closed under a request.
type door struct {
	inner http.Handler

	mu     sync.Mutex // guards closed, and that nobody gets in after it
	closed bool
	inside sync.WaitGroup

	// leave ends with the context of each request that is inside.
	leave context.Context
	end   context.CancelFunc
}

func newDoor(inner http.Handler) *door {
	d := &door{inner: inner}
	d.leave, d.end = context.WithCancel(context.Background())
	return d
}

func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inside.Add(1)
	return true
}

// ServeHTTP lets a request in while the door is open.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.enter() {
		w.Header().Set("Retry-After", "2")
		http.Error(w, "The server has stopped.", http.StatusServiceUnavailable)
		return
	}
	defer d.inside.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.leave, cancel)()
	d.inner.ServeHTTP(w, r.WithContext(ctx))
}

// shut lets nobody in any more and returns when everybody is out. Whoever is inside when
// ctx ends is told to leave.
func (d *door) shut(ctx context.Context) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	defer d.end()
	defer context.AfterFunc(ctx, d.end)()
	d.inside.Wait()
}
