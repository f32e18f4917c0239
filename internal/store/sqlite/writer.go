package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// maxGroup bounds how many units share a commit, and so how long the first of them
// waits for the others.
const maxGroup = 64

// foldAfter is how many units the log takes, in foldCommits commits at least, before it is
// folded into the data file. Pages that many of them change are then copied once, and two
// syncs serve all. Turns one by one fill some 25 MiB of log with so many.
const (
	foldAfter   = 512
	foldCommits = 64
)

var (
	errClosed   = errors.New("the store is closed")
	errPanicked = errors.New("another write of the same moment broke off")
)

// unit is one unit of writing: all of it becomes durable or nothing. It may be run
// twice, so it leaves nothing outside the database but its results, which the
// second run replaces.
type unit func(ctx context.Context, q *db.Queries) error

// writer runs units one after the other on the one connection that can write. A caller
// that finds it free writes by itself, so that no goroutine has to be woken for it.
// Those that come meanwhile wait, and then share a transaction, in which each has a
// savepoint: the price of a commit is the sync of the disk, and it is the same for one
// as for many. The first of them writes for all.
type writer struct {
	conn *sql.Conn
	q    *db.Queries // prepared on conn
	tx   control

	// full is told when enough stands in the log; see foldAfter and upkeep.fold.
	full      chan struct{}
	foldAfter int // 0 is never; whoever writes uses it, and what follows
	unfolded  int
	commits   int // that unfolded came in

	told atomic.Pointer[func(took time.Duration, units int)] // of each commit; see Store.OnCommit

	mu     sync.Mutex // guards what follows
	busy   bool       // somebody writes
	queue  []*job     // those that wait, in their order
	closed bool
	free   chan struct{} // closed when closed and nobody writes
}

// control are the statements around those of the units. They are plain statements: the
// transactions of database/sql cost a goroutine each.
type control struct {
	begin, commit, rollback *sql.Stmt
	savepoint, back, keep   *sql.Stmt
}

type job struct {
	ctx  context.Context
	run  unit
	then []func() // called once it is durable, before anybody else writes
	solo bool     // it wants no transaction, and shares none
	err  error    // what came of it, once it is done

	turn chan bool // told once: true when it is done, false when its caller is to write
}

func newWriter(ctx context.Context, pool *sql.DB) (_ *writer, err error) {
	w := &writer{free: make(chan struct{}), full: make(chan struct{}, 1), foldAfter: foldAfter}
	if w.conn, err = pool.Conn(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.release())
		}
	}()
	for _, c := range []struct {
		stmt **sql.Stmt
		sql  string
	}{
		// A transaction that begins as a reader cannot always become a writer.
		{&w.tx.begin, "BEGIN IMMEDIATE"}, {&w.tx.commit, "COMMIT"}, {&w.tx.rollback, "ROLLBACK"},
		{&w.tx.savepoint, "SAVEPOINT unit"}, {&w.tx.back, "ROLLBACK TO unit"}, {&w.tx.keep, "RELEASE unit"},
	} {
		if *c.stmt, err = w.conn.PrepareContext(ctx, c.sql); err != nil {
			return nil, err
		}
	}
	w.q, err = db.Prepare(ctx, w.conn)
	return w, err
}

// do runs a unit. Its error is the unit's own, or that of the file. The context
// ends the wait for the writer's attention only; from then on the wait is bounded
// by the work of one group and the busy timeout.
func (w *writer) do(ctx context.Context, run unit, then ...func()) error {
	return w.submit(ctx, &job{run: run, then: then})
}

// pause runs something while nobody writes, outside of any transaction.
func (w *writer) pause(ctx context.Context, run func() error) error {
	return w.submit(ctx, &job{solo: true, run: func(context.Context, *db.Queries) error { return run() }})
}

func (w *writer) submit(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.ctx = context.WithoutCancel(ctx)
	wait, err := w.enter(j)
	switch {
	case err != nil:
		return err
	case !wait:
		w.write(j)
		return j.err
	}
	select {
	case done := <-j.turn:
		if !done {
			w.write(j)
		}
		return j.err
	case <-ctx.Done():
	}
	if w.leave(j) {
		return ctx.Err()
	}
	if done := <-j.turn; !done {
		w.write(j)
	}
	return j.err
}

// read runs a query on the connection that writes, if nobody else uses it, and reports
// whether it did. What was just written is at hand there, while a reader would have to
// read it anew.
func (w *writer) read(query func(q *db.Queries)) bool {
	w.mu.Lock()
	if w.busy || w.closed {
		w.mu.Unlock()
		return false
	}
	w.busy = true
	w.mu.Unlock()
	defer w.next()
	query(w.q)
	return true
}

// enter takes a job in. When it need not wait its caller is the one that writes.
func (w *writer) enter(j *job) (wait bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return false, errClosed
	case w.busy:
		j.turn = make(chan bool, 1)
		w.queue = append(w.queue, j)
		return true, nil
	}
	w.busy = true
	return false, nil
}

// leave takes a job back, unless somebody has begun with it.
func (w *writer) leave(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// write runs a job together with those that wait at this moment, and makes the next one
// write.
func (w *writer) write(j *job) {
	w.mu.Lock()
	n := 0
	for !j.solo && n < min(len(w.queue), maxGroup-1) && !w.queue[n].solo {
		n++
	}
	group := append([]*job{j}, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	w.mu.Unlock()
	for _, j := range group {
		j.err = errPanicked
	}
	defer func() { // also when a unit panics, whose caller may go on
		w.next() // before the others are told: the disk waits for no one
		for _, other := range group[1:] {
			other.turn <- true
		}
	}()
	began := time.Now()
	w.commit(group)
	if tell := w.told.Load(); tell != nil && !j.solo {
		(*tell)(time.Since(began), len(group))
	}
}

// next makes the first of those that wait write.
func (w *writer) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		first := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		first.turn <- false
		return
	}
	w.busy = false
	if w.closed {
		close(w.free)
	}
}

// close refuses the jobs that wait and returns when the one under way is done.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	for _, j := range w.queue {
		j.err = errClosed
		j.turn <- true
	}
	w.queue = nil
	busy := w.busy
	w.mu.Unlock()
	if busy {
		<-w.free
	}
	return w.release()
}

// release closes what newWriter has opened. The file stays open until its last statement
// is closed.
func (w *writer) release() error {
	var errs []error
	if w.q != nil {
		errs = append(errs, w.q.Close())
	}
	for _, s := range []*sql.Stmt{w.tx.begin, w.tx.commit, w.tx.rollback, w.tx.savepoint, w.tx.back, w.tx.keep} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// commit runs a group. Each of its jobs has its error then.
func (w *writer) commit(group []*job) {
	if first := group[0]; first.solo {
		first.err = first.run(first.ctx, w.q)
		return
	}
	if len(group) > 1 && w.together(group) == nil {
		for _, j := range group {
			j.done()
		}
		return
	}
	// One alone; or the file refused the group, perhaps because of one of them. Then
	// nothing was written, and each gets a transaction of its own.
	for _, j := range group {
		j.err = w.transact(1, func() error { return j.run(j.ctx, w.q) })
		j.done()
	}
}

// done tells of a job that is durable.
func (j *job) done() {
	if j.err != nil {
		return
	}
	for _, then := range j.then {
		then()
	}
}

// together runs the group in one transaction, in which each fails alone. An error says
// that none was written.
func (w *writer) together(group []*job) error {
	ctx := context.Background()
	return w.transact(len(group), func() error {
		for _, j := range group {
			if _, err := w.tx.savepoint.ExecContext(ctx); err != nil {
				return err
			}
			if j.err = j.run(j.ctx, w.q); j.err != nil {
				// This fails when SQLite has rolled back the whole transaction by
				// itself, as it does when the disk is full.
				if _, err := w.tx.back.ExecContext(ctx); err != nil {
					return err
				}
			}
			if _, err := w.tx.keep.ExecContext(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// fills counts a commit of so many units, and reports whether the log is to be folded.
func (w *writer) fills(units int) bool {
	w.unfolded, w.commits = w.unfolded+units, w.commits+1
	if w.foldAfter == 0 || w.unfolded < w.foldAfter || w.commits < foldCommits {
		return false
	}
	w.unfolded, w.commits = 0, 0
	return true
}

// transact runs one transaction of so many units, which is rolled back when its content
// fails or panics, or when it cannot be committed.
func (w *writer) transact(units int, run func() error) error {
	ctx := context.Background()
	if _, err := w.tx.begin.ExecContext(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if !committed {
			// This fails when SQLite has done it by itself.
			_, _ = w.tx.rollback.ExecContext(ctx)
		}
	}()
	if err := run(); err != nil {
		return err
	}
	if _, err := w.tx.commit.ExecContext(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	if w.fills(units) {
		select {
		case w.full <- struct{}{}:
		default: // it is being folded
		}
	}
	return nil
}
