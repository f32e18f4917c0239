package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// The bounds of trying again. A conflict is over when the other one has committed, so
// many in a row are a fault; a primary that is gone comes back in seconds, and is waited
// for as long as the call may take.
const (
	maxConflicts = 10
	firstPause   = 5 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// defaultLookTime is how long is looked, once the time of the call is over, for a write of
// which the outcome is unknown.
const defaultLookTime = 2 * time.Second

// defaultAttemptTime bounds one try. A server that is gone without a word is found out by
// that alone, and the call may have time for another one.
const defaultAttemptTime = 5 * time.Second

// unit is one unit of writing.
type unit struct {
	doing string
	// run does it in one transaction. It may be called again, so it leaves nothing but its
	// results, which the next call replaces.
	run func(ctx context.Context, c *pgxpool.Conn) error
	// landed tells whether an earlier run has happened, of which nobody was told: it finds
	// the rows by their keys and compares what is in them with what was to be written. Others
	// may have written rows of the same keys.
	landed func(ctx context.Context, q *db.Queries) (bool, error)
}

// write runs a unit of writing for something that is there already. Either all of it is
// durable or nothing is. A conflict with other writers is tried again, and so is a
// connection that is lost; when that may have been on the way to the commit, the write is
// looked for first, so that it is neither done twice nor called a failure when it was
// none.
//
// What an earlier run has left in the server's hands may still come after it was looked
// for. So a run does not rely on the look: it is refused when the other one has happened,
// and then it is looked for again.
func (s *Store) write(ctx context.Context, u unit) error {
	began := time.Now()
	err := s.durably(ctx, u)
	if tell := s.told.Load(); tell != nil && err == nil {
		(*tell)(time.Since(began), 1)
	}
	return err
}

func (s *Store) durably(ctx context.Context, u unit) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", u.doing, err)
	}
	ctx, cancel := finishing(ctx)
	defer cancel()
	var (
		doubt     bool  // a run may have happened
		final     bool  // nothing is run any more
		failure   error // of the last run
		conflicts int
	)
	for tries := 0; ; tries++ {
		if tries > 0 && pause(ctx, tries) != nil {
			return s.timeOver(ctx, u, doubt, final, failure)
		}
		if doubt {
			happened, err := s.look(ctx, u)
			switch {
			case err != nil:
				if judge(err) == refused {
					return s.uncertain(u, errors.Join(failure, err))
				}
				continue
			case happened:
				return nil
			}
		}
		if final {
			return s.fail(u, failure)
		}
		err := s.with(ctx, u.run)
		if err == nil {
			return nil
		}
		verdict := judge(err)
		if ctx.Err() != nil {
			err = errors.Join(err, failure) // that the time is over says less than why it was
		}
		failure = err
		switch verdict {
		case refused:
			if !doubt {
				return s.fail(u, failure)
			}
			final = true
		case conflicted:
			if conflicts++; conflicts == maxConflicts {
				final = true
			}
		case unknown:
			doubt = true
		}
	}
}

// begin is write for something new, which a full disk refuses.
func (s *Store) begin(ctx context.Context, u unit) error {
	if err := s.Room(); err != nil {
		return fmt.Errorf("%s: %w", u.doing, err)
	}
	return s.write(ctx, u)
}

// repeat runs queries that may be repeated: they write nothing, or the same again.
func (s *Store) repeat(ctx context.Context, doing string, run func(ctx context.Context, q *db.Queries) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for tries := 1; ; tries++ {
		err := s.with(ctx, func(ctx context.Context, c *pgxpool.Conn) error { return run(ctx, db.New(c)) })
		if err == nil || judge(err) == refused || ctx.Err() != nil || pause(ctx, tries) != nil {
			return explain(doing, err)
		}
	}
}

// with tries something on a connection, and notes what its failure says about the others.
func (s *Store) with(ctx context.Context, run func(ctx context.Context, c *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.attemptTime)
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return &unsentError{err}
	}
	err = run(ctx, c)
	if c.Conn().IsClosed() {
		// The driver says goodbye to the server for as long as 15 s, in which the pool would
		// count it among its own.
		c.Hijack()
	} else {
		c.Release()
	}
	if err != nil {
		s.note(err)
	}
	return err
}

// transact runs queries in one transaction, a round trip each. Its error is the first
// one: what the driver says of a rollback on a connection that broke at the commit would
// sound as if nothing had been sent.
func transact(ctx context.Context, c *pgxpool.Conn, run func(q *db.Queries) error) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	if err := run(db.New(tx)); err != nil {
		_ = tx.Rollback(ctx) // a connection that fails here is not used again
		return err
	}
	return tx.Commit(ctx)
}

// note draws the conclusions from an error.
func (s *Store) note(err error) {
	switch {
	case isCode(err, codeReadOnly):
		// This server is not the primary any more, and the other connections are to it.
		s.lost.Store(s.now().UnixNano())
		s.pool.Reset()
	case isCode(err, codeDiskFull):
		s.full.Store(s.now().Add(fullTime).UnixNano())
	case judge(err) == unsent, judge(err) == unknown:
		s.lost.Store(s.now().UnixNano())
	}
}

func (s *Store) look(ctx context.Context, u unit) (happened bool, err error) {
	err = s.with(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		happened, err = u.landed(ctx, db.New(c))
		return err
	})
	return happened, err
}

// timeOver is what a unit comes to when the time of its call is over.
func (s *Store) timeOver(ctx context.Context, u unit, doubt, final bool, failure error) error {
	if !doubt {
		return s.fail(u, failure)
	}
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.lookTime)
	defer cancel()
	for tries := 1; ; tries++ {
		happened, err := s.look(looking, u)
		switch {
		case err == nil && happened:
			return nil
		case err == nil && final:
			return s.fail(u, failure)
		case err == nil:
			// It is not there, but the server may still have it in its hands.
			return s.uncertain(u, failure)
		case judge(err) == refused, pause(looking, tries) != nil:
			return s.uncertain(u, errors.Join(failure, err))
		}
	}
}

func (s *Store) uncertain(u unit, failure error) error {
	return errUnavailable().Because(fmt.Errorf("%s: %w: %w", u.doing, store.ErrUnknown, failure))
}

func (s *Store) fail(u unit, failure error) error { return explain(u.doing, failure) }

// pause waits before the next try, longer each time, and never for the same time as
// others that wait.
func pause(ctx context.Context, tries int) error {
	longest := min(firstPause<<min(tries-1, 10), longestPause)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
