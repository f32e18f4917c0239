package mode

import (
	"context"
	"slices"
	"sync"
)

// keptCatalogs is how many catalogues a Live remembers, the one in force included. A turn
// that waits for its client goes on with the catalogue that it began with.
const keptCatalogs = 16

// Live is the catalogue of a server that may be given another one while it runs (D78).
// Turns that run or wait keep the one that they began with; whatever begins takes the
// current one. It is safe for concurrent use.
type Live struct {
	mu   sync.RWMutex // guards kept
	kept []*Catalog   // the one in force first
}

// NewLive returns a Live in which c is in force.
func NewLive(c *Catalog) *Live { return &Live{kept: []*Catalog{c}} }

// Replace puts another catalogue in force, at once and as a whole.
func (l *Live) Replace(c *Catalog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	earlier := slices.DeleteFunc(slices.Clone(l.kept), func(k *Catalog) bool { return k.hash == c.hash })
	l.kept = append([]*Catalog{c}, earlier[:min(len(earlier), keptCatalogs-1)]...)
}

// Current returns the catalogue in force.
func (l *Live) Current() *Catalog {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.kept[0]
}

// Recall returns the catalogue with this hash, in force or earlier. ok is false when it
// is not remembered.
func (l *Live) Recall(hash string) (c *Catalog, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, c := range l.kept {
		if c.hash == hash {
			return c, true
		}
	}
	return nil, false
}

// GetAllModes returns the summaries of all modes: those of the turn that ctx belongs to,
// else those in force (TUL-010 §2).
func (l *Live) GetAllModes(ctx context.Context) ([]Summary, error) {
	return Of(ctx, l.Current()).GetAllModes(ctx)
}

type contextKey struct{}

// Within returns a context that belongs to a turn which began with the catalogue c. What
// runs in it, tools above all, judges modes by c, whatever has been loaded since.
func Within(ctx context.Context, c *Catalog) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// Of returns the catalogue of the turn that ctx belongs to, or else current.
func Of(ctx context.Context, current *Catalog) *Catalog {
	if c, ok := ctx.Value(contextKey{}).(*Catalog); ok {
		return c
	}
	return current
}
