package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// upkeepEvery is how often is looked whether there is something to do.
const upkeepEvery = time.Second

// closeTime is how long a store that closes gives back what was erased, at most.
const closeTime = 5 * time.Second

// shrinkStep is how many pages are given back to the system in one transaction, for
// which writers wait.
const shrinkStep = 256

// upkeep folds the log into the data file, makes that smaller after something was erased,
// and sets the reserve aside again when there is space. It has a connection of its own, which never waits long for
// the others: what it cannot do now it does later.
type upkeep struct {
	store *Store
	conn  *sql.DB
	erase atomic.Bool // something was erased since the file was last made smaller
	stop  context.CancelFunc
	done  chan struct{} // closed when run has returned
}

func (s *Store) startUpkeep(ctx context.Context) (*upkeep, error) {
	conn, err := sql.Open("sqlite", dsn(s.path, forUpkeep))
	if err != nil {
		return nil, err
	}
	conn.SetMaxOpenConns(1)
	u := &upkeep{store: s, conn: conn, done: make(chan struct{})}
	var free int64
	if err := conn.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
		return nil, fmt.Errorf("count the free pages: %w", err)
	}
	u.erase.Store(free > 0) // a process before may have stopped halfway
	if err := s.reserve.hold(); err != nil {
		s.log.Warn("no space can be set aside; nothing new is taken in until there is some", "file", s.path, "error", err)
	}
	running, stop := context.WithCancel(context.Background())
	u.stop = stop
	go u.run(running)
	return u, nil
}

// close ends the upkeep. What is still to be given back it tries for a moment, and
// otherwise leaves to the next start.
func (u *upkeep) close() error {
	u.stop()
	<-u.done
	ctx, done := context.WithTimeout(context.Background(), closeTime)
	defer done()
	if err := u.finish(ctx); err != nil {
		u.store.log.Info("what was erased is overwritten at the next start", "file", u.store.path, "error", err)
	}
	return u.conn.Close()
}

// finish gives back what there is at once, and waits until that is done. Others may be
// in the way for moments, so it tries until its context ends.
func (u *upkeep) finish(ctx context.Context) error {
	for u.erase.Load() {
		err := u.shrink(ctx)
		if err == nil {
			u.erase.Store(false)
			break
		}
		select {
		case <-ctx.Done():
			return explain("overwrite what was erased", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// erased notes that there may be pages to give back.
func (u *upkeep) erased() { u.erase.Store(true) }

func (u *upkeep) run(ctx context.Context) {
	defer close(u.done)
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.store.writer.full:
			if err := u.fold(ctx); err != nil && ctx.Err() == nil {
				u.store.log.Debug("fold the log into the data file", "file", u.store.path, "error", err)
			}
			continue
		case <-tick.C:
		}
		if u.erase.CompareAndSwap(true, false) {
			if err := u.shrink(ctx); err != nil {
				u.erase.Store(true)
				u.store.log.Debug("make the file smaller", "file", u.store.path, "error", err)
			}
		}
		if !u.store.reserve.isHeld() {
			u.heal(ctx)
		}
	}
}

// fold copies what the log has into the data file, while others write, so that no commit
// has to do it; then, with the writer standing still, the few pages that have come
// meanwhile. With everything copied the log is written from its beginning again, unless
// somebody reads from it. Then it grows until the next time, and when it is very large a
// commit folds it (wal_autocheckpoint).
func (u *upkeep) fold(ctx context.Context) error {
	copied := func() error {
		var busy, frames, folded int64
		return u.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &folded)
	}
	if err := copied(); err != nil {
		return err
	}
	return u.store.writer.pause(ctx, copied)
}

// heal sets the reserve aside again if it can. The writer does it, so that no commit
// looks for space in that moment.
func (u *upkeep) heal(ctx context.Context) {
	// The log may hold what the data file has space for.
	_ = u.checkpoint(ctx)
	err := u.store.writer.do(ctx, func(context.Context, *db.Queries) error { return u.store.reserve.hold() })
	if err == nil {
		u.store.log.Info("there is space again", "file", u.store.path)
	}
}

// shrink gives the free pages back to the system, a few at a time, and empties the log.
// After that nothing of what was erased is in the files. A file that was made before
// there was upkeep keeps its free pages, zeroed, and uses them again.
func (u *upkeep) shrink(ctx context.Context) error {
	for {
		var before, after int64
		if err := u.conn.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&before); err != nil {
			return err
		}
		if before == 0 {
			break
		}
		if err := vacuum(ctx, u.conn); err != nil {
			return err
		}
		if err := u.conn.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&after); err != nil {
			return err
		}
		if after >= before {
			break
		}
	}
	return u.checkpoint(ctx)
}

// vacuum gives back one step of pages. The statement moves a page for each row that is
// read.
func vacuum(ctx context.Context, conn *sql.DB) error {
	rows, err := conn.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep))
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// checkpoint folds the log into the data file and empties it.
func (u *upkeep) checkpoint(ctx context.Context) error {
	var busy, frames, folded int64
	if err := u.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &folded); err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("somebody reads from the log, which has %d frames", frames)
	}
	return nil
}
