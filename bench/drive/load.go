package drive

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sessionTurns is how many turns a session of the closed loop has.
const sessionTurns = 10

// Load is what a closed loop did.
type Load struct {
	Turns   []time.Duration
	Elapsed time.Duration
}

// Closed lets so many clients send turn after turn, each in sessions of ten, for the
// given time. Turns under way at its end are finished and counted. The first turn that
// fails ends the loop with an error.
func (d *Driver) Closed(ctx context.Context, clients int, within time.Duration) (Load, error) {
	loop, stop := context.WithTimeout(ctx, within+turnTime)
	defer stop()
	var mu sync.Mutex
	var out Load
	var failed error // out and failed are the workers', under mu
	var workers sync.WaitGroup
	start := time.Now()
	for range clients {
		workers.Go(func() {
			turns, err := d.client(loop, start.Add(within))
			mu.Lock()
			defer mu.Unlock()
			out.Turns = append(out.Turns, turns...)
			if err != nil {
				failed = errors.Join(failed, err)
				stop() // the others need not go on
			}
		})
	}
	workers.Wait()
	out.Elapsed = time.Since(start)
	if failed == nil {
		failed = ctx.Err()
	}
	return out, failed
}

// client sends turn after turn.
func (d *Driver) client(ctx context.Context, until time.Time) ([]time.Duration, error) {
	var turns []time.Duration
	var s *session
	for n := 0; time.Now().Before(until); n++ {
		if n%sessionTurns == 0 {
			s = newSession()
		}
		took, err := d.turn(ctx, s, question(n), nil)
		switch {
		case err == nil:
			turns = append(turns, took)
		case errors.Is(ctx.Err(), context.Canceled):
			return turns, nil // Closed knows why
		default:
			return turns, err
		}
	}
	return turns, nil
}

// Session is one session, to which turns are sent one by one.
type Session struct {
	driver *Driver
	s      *session
	turns  int
}

// NewSession returns a session without turns.
func (d *Driver) NewSession() *Session { return &Session{driver: d, s: newSession()} }

// Turn sends the next turn and returns how long it took.
func (s *Session) Turn(ctx context.Context) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, turnTime)
	defer stop()
	s.turns++
	return s.driver.turn(ctx, s.s, question(s.turns), nil)
}
