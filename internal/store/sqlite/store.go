package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// Store is an open data file. Its methods may be called from many goroutines.
type Store struct {
	path    string
	log     *slog.Logger
	now     func() time.Time
	lock    *fileLock
	writing *sql.DB // one connection, used by writer alone once the store is open
	writer  *writer
	pool    *sql.DB // connections that cannot write
	read    *db.Queries
	reserve *reserve
	upkeep  *upkeep
	hooked  store.Hooked
	memory  *memory

	closing  sync.Once
	closeErr error
}

// Open opens the data file at path, makes it and its folder when they are not
// there, and brings its schema up to date. It fails when another process has the
// file open as its server, when the file belongs to another program, and when a
// newer Aptix has written it. A nil log is silent.
func Open(ctx context.Context, path string, log *slog.Logger) (_ *Store, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path, lock, err := claim(path)
	if err != nil {
		return nil, fmt.Errorf("open the data file: %w", err)
	}
	s := &Store{path: path, log: log, now: time.Now, lock: lock, reserve: &reserve{path: path + ".reserve"}, memory: newMemory()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open %s: %w", path, err), s.Close())
		}
	}()

	writing, err := writingTo(path)
	if err != nil {
		return nil, err
	}
	s.writing, err = sql.Open("sqlite", dsn(path, writing))
	if err != nil {
		return nil, err
	}
	s.writing.SetMaxOpenConns(1)
	if err := s.identify(ctx); err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	if s.writer, err = newWriter(ctx, s.writing); err != nil {
		return nil, err
	}

	// The readers come last: only now does the file have its tables.
	s.pool, err = sql.Open("sqlite", dsn(path, forReading))
	if err != nil {
		return nil, err
	}
	readers := max(4, runtime.GOMAXPROCS(0))
	s.pool.SetMaxOpenConns(readers)
	s.pool.SetMaxIdleConns(readers)
	if s.read, err = db.Prepare(ctx, s.pool); err != nil {
		return nil, err
	}
	if err := s.LookForWebhooks(ctx); err != nil {
		return nil, err
	}
	if s.upkeep, err = s.startUpkeep(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close finishes the write that is under way, refuses the ones that wait, folds
// the log into the data file and gives the file free. It returns when all that is
// done; calling it again does nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		var errs []error
		if s.upkeep != nil { // before the writer, which it uses
			errs = append(errs, s.upkeep.close())
		}
		if s.writer != nil {
			errs = append(errs, s.writer.close())
			// The model must not be asked for what nobody can keep.
			s.memory.end()
		}
		if s.read != nil {
			errs = append(errs, s.read.Close())
		}
		if s.pool != nil {
			errs = append(errs, s.pool.Close())
		}
		if s.writer != nil {
			// Without readers nothing holds the log, so it can be emptied.
			_, err := s.writing.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
			switch {
			case isFull(err):
				// Then the log stays, and with it all that was written.
				s.log.Warn("the log cannot be folded into the data file: the disk is full", "file", s.path)
			case err != nil:
				errs = append(errs, fmt.Errorf("checkpoint: %w", err))
			}
		}
		if s.writing != nil {
			errs = append(errs, s.writing.Close())
		}
		// Last: the file is free only when nothing of it is open any more.
		errs = append(errs, s.lock.release())
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("close %s: %w", s.path, err)
		}
	})
	return s.closeErr
}

// OnCommit registers who is told how long each commit took and how many units of writing
// shared it. It returns quickly.
func (s *Store) OnCommit(tell func(took time.Duration, units int)) { s.writer.told.Store(&tell) }

// Ping reports whether the file can be read.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.PingContext(ctx); err != nil {
		return fmt.Errorf("ping %s: %w", s.path, err)
	}
	return nil
}

// write runs one unit of writing for something that is there already. Either all of it
// is durable or nothing is. When the disk is full it may use what is in reserve. then is
// called once it is durable, before anybody else writes.
func (s *Store) write(ctx context.Context, doing string, run unit, then ...func()) error {
	err := s.writer.do(ctx, run, then...)
	if isFull(err) {
		if rerr := s.reserve.release(); rerr != nil {
			s.log.ErrorContext(ctx, "give the reserve free", "error", rerr)
		}
		err = s.writer.do(ctx, run, then...)
	}
	return explain(doing, err)
}

// begin is write for something new, which a full disk refuses: the reserve is for what
// is under way.
func (s *Store) begin(ctx context.Context, doing string, run unit, then ...func()) error {
	if err := s.Room(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return explain(doing, s.writer.do(ctx, run, then...))
}

// micros is how the file keeps a time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// stamp is micros, with the present for a time that nobody set.
func (s *Store) stamp(t time.Time) int64 {
	if t.IsZero() {
		t = s.now()
	}
	return micros(t)
}
