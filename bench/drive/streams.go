package drive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Pace is how the model streams: Tokens of TokenBytes each, Gap apart.
type Pace struct {
	Tokens, TokenBytes int
	Gap                time.Duration
	// Began returns when the model gave the first token of an answer with this text.
	Began func(text []byte, now time.Time) (time.Time, bool)
}

// last is when the last token is due.
func (p Pace) last() time.Duration { return time.Duration(p.Tokens-1) * p.Gap }

// Streams is what many streams at once did.
type Streams struct {
	// Delays are how late each event with text came, after the moment at which the
	// model gave its newest token.
	Delays []time.Duration
	// Firsts are the times from the request to the first text, Ends how much longer than
	// the model's answer each turn took. Both have what it took to ask the model.
	Firsts, Ends []time.Duration
	// Lost is how many tokens never came.
	Lost int
	// Failed is how many streams did not end well, Err the first of them.
	Failed int
	Err    error
}

// Streams starts n streams, evenly spread over the ramp, and reads them to their ends.
// half is called when half of the time is over that all streams take together, and has
// returned when Streams does.
func (d *Driver) Streams(ctx context.Context, n int, ramp time.Duration, pace Pace, half func()) Streams {
	ctx, stop := context.WithTimeout(ctx, ramp+2*pace.last()+turnTime)
	defer stop()
	halved := make(chan struct{})
	timer := time.AfterFunc((ramp+pace.last())/2, func() { defer close(halved); half() })
	defer func() {
		if !timer.Stop() {
			<-halved
		}
	}()
	var mu sync.Mutex
	var out Streams // the streams', under mu
	var streams sync.WaitGroup
	start := time.Now()
	for i := range n {
		streams.Go(func() {
			one, seen, err := d.paced(ctx, start.Add(ramp*time.Duration(i)/time.Duration(n)), pace)
			mu.Lock()
			defer mu.Unlock()
			out.Delays = append(out.Delays, one.Delays...)
			out.Firsts = append(out.Firsts, one.Firsts...)
			out.Ends = append(out.Ends, one.Ends...)
			out.Lost += pace.Tokens - seen
			if err != nil {
				out.Failed++
				if out.Err == nil {
					out.Err = err
				}
			}
		})
	}
	streams.Wait()
	return out
}

// paced runs one turn in a session of its own and returns how late it was, and how many
// tokens came.
func (d *Driver) paced(ctx context.Context, start time.Time, pace Pace) (out Streams, seen int, err error) {
	select {
	case <-time.After(time.Until(start)):
	case <-ctx.Done():
		return out, 0, ctx.Err()
	}
	out.Delays = make([]time.Duration, 0, pace.Tokens)
	var began time.Time
	known := true
	start = time.Now()
	took, err := d.turn(ctx, newSession(), question(1), func(answer []byte, at time.Time) {
		if began.IsZero() {
			out.Firsts = append(out.Firsts, at.Sub(start))
			began, known = pace.Began(answer, at)
		}
		seen = len(answer) / pace.TokenBytes
		out.Delays = append(out.Delays, at.Sub(began)-time.Duration(seen-1)*pace.Gap)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("stream not over in time, %d of %d tokens came: %w", seen, pace.Tokens, err)
	case err == nil && !known:
		err = errors.New("the text does not say when the model began")
	case err == nil:
		out.Ends = append(out.Ends, took-pace.last())
	}
	return out, seen, err
}
