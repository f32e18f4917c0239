package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// maxGroup bounds how many units share a commit, and so how long the first of them
// waits for the others.
const maxGroup = 64

var errClosed = errors.New("the store is closed")

// unit is one unit of writing: all of it becomes durable or nothing. It may be run
// twice, so it leaves nothing outside the database but its results, which the
// second run replaces.
type unit func(ctx context.Context, q *db.Queries) error

// writer runs units one after the other on the one connection that can write.
// Units that wait at the same moment share a transaction, in which each has a
// savepoint: the price of a commit is the sync of the disk, and it is the same for
// one as for many.
type writer struct {
	conn *sql.DB
	q    *db.Queries
	jobs chan job      // unbuffered: a caller that was not taken yet can still give up
	quit chan struct{} // closed by close
	done chan struct{} // closed when loop has returned
}

type job struct {
	ctx    context.Context
	run    unit
	result chan error // has room for one
}

func newWriter(ctx context.Context, conn *sql.DB) (*writer, error) {
	q, err := db.Prepare(ctx, conn)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn, q: q, jobs: make(chan job), quit: make(chan struct{}), done: make(chan struct{})}
	go w.loop()
	return w, nil
}

// do runs a unit. Its error is the unit's own, or that of the file. The context
// ends the wait for the writer's attention only; from then on the wait is bounded
// by the work of one group and the busy timeout.
func (w *writer) do(ctx context.Context, run unit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := job{ctx: context.WithoutCancel(ctx), run: run, result: make(chan error, 1)}
	select {
	case w.jobs <- j:
		return <-j.result
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
}

// close stops the loop and returns when it has stopped.
func (w *writer) close() error {
	close(w.quit)
	<-w.done
	return w.q.Close()
}

func (w *writer) loop() {
	defer close(w.done)
	for {
		select {
		case j := <-w.jobs:
			w.commit(w.gather(j))
		case <-w.quit:
			return
		}
	}
}

// gather adds the jobs that wait at this moment to the first.
func (w *writer) gather(first job) []job {
	group := []job{first}
	for len(group) < maxGroup {
		select {
		case j := <-w.jobs:
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

func (w *writer) commit(group []job) {
	if len(group) > 1 {
		if results, err := w.together(group); err == nil {
			for i, j := range group {
				j.result <- results[i]
			}
			return
		}
		// The file refused the group, perhaps because of one of them. Nothing was
		// written, so each gets a transaction of its own.
	}
	for _, j := range group {
		j.result <- w.alone(j)
	}
}

// together runs the group in one transaction and returns the result of each. An
// error says that none was written.
func (w *writer) together(group []job) ([]error, error) {
	ctx := context.Background()
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // after a commit it does nothing
	q := w.q.WithTx(tx)
	results := make([]error, len(group))
	for i, j := range group {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT unit"); err != nil {
			return nil, err
		}
		if results[i] = j.run(j.ctx, q); results[i] != nil {
			// This fails when SQLite has rolled back the whole transaction by
			// itself, as it does when the disk is full.
			if _, err := tx.ExecContext(ctx, "ROLLBACK TO unit"); err != nil {
				return nil, err
			}
		}
		if _, err := tx.ExecContext(ctx, "RELEASE unit"); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return results, nil
}

func (w *writer) alone(j job) error {
	tx, err := w.conn.BeginTx(j.ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := j.run(j.ctx, w.q.WithTx(tx)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
