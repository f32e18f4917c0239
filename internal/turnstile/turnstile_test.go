package turnstile

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestPass_OneAtATimeForEachKey(t *testing.T) {
	var stiles Turnstiles[string]
	var wg sync.WaitGroup
	a, b := 0, 0 // the race detector sees two at once
	for range 100 {
		for k, n := range map[string]*int{"a": &a, "b": &b} {
			wg.Go(func() {
				done, err := stiles.Pass(t.Context(), k)
				if err != nil {
					t.Error(err)
					return
				}
				*n++
				done()
			})
		}
	}
	wg.Wait()
	if a != 100 || b != 100 {
		t.Errorf("%d and %d passed, want 100 each", a, b)
	}
	if len(stiles.all) != 0 {
		t.Errorf("%d turnstiles are left", len(stiles.all))
	}
}

func TestPass_GivesUpWithItsContext(t *testing.T) {
	var stiles Turnstiles[string]
	done, err := stiles.Pass(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := stiles.Pass(ctx, "a"); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	done()
	if len(stiles.all) != 0 {
		t.Errorf("%d turnstiles are left", len(stiles.all))
	}
}
