package events

import (
	"context"
	"errors"
	"io"
	"iter"
)

// Reader is one follower's place in a stream. Whoever reads decides how to wait, so
// that a reader needs no goroutine of its own. It is used by one goroutine.
type Reader[E any] interface {
	// Next returns the events that are ready, good until the next call. When there are
	// none, again receives or is closed as soon as it is worth asking once more. The
	// error is io.EOF behind the last event; after any error there is nothing more to
	// ask for.
	Next(ctx context.Context) (ready []E, again <-chan struct{}, err error)
	// Close ends the reading, wherever it stands, and what Next returned last. Once is
	// enough; more do nothing.
	Close()
}

// All yields everything that a reader gets, waiting for it. When ctx ends, its error is
// the last value.
func All[E any](ctx context.Context, r Reader[E]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		defer r.Close()
		for {
			if err := ctx.Err(); err != nil {
				yield(none, err)
				return
			}
			ready, again, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, e := range ready {
				if err := ctx.Err(); err != nil {
					yield(none, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(ready) > 0 {
				continue
			}
			select {
			case <-again:
			case <-ctx.Done():
			}
		}
	}
}
