package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/store"
)

// The defaults for what the connection string does not say.
const (
	defaultConns   = 16
	connectTimeout = 5 * time.Second
	pingTimeout    = time.Second
)

// callTime bounds a call whose context has no deadline.
const callTime = 10 * time.Second

// fullTime is how long nothing new is begun after the database has said that its disk
// is full.
const fullTime = 2 * time.Second

// Store is an open database. Its methods may be called from many goroutines.
type Store struct {
	name string // host and database, for messages
	log  *slog.Logger
	now  func() time.Time
	pool *pgxpool.Pool
	// hooked are looked for from time to time, as other nodes make webhooks too.
	hooked store.Hooked
	// These have their defaults, but for tests.
	attemptTime, lookTime time.Duration

	lost atomic.Int64                                        // when a connection was last lost, in nanoseconds since 1970
	told atomic.Pointer[func(took time.Duration, units int)] // of each write; see OnCommit

	full atomic.Int64 // until when nothing new is begun, likewise
}

// Open connects to the database that the connection string names, a URL or keywords as
// libpq takes them, and brings its schema up to date. Besides those of libpq it may have
// pool_max_conns and the other members that pgxpool reads. It fails when the database
// cannot be reached, and when a newer Aptix has migrated it. A nil log is silent.
func Open(ctx context.Context, connection secret.Text, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := configure(connection)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	at := config.ConnConfig
	s := &Store{name: nameOf(at), log: log, now: time.Now, attemptTime: defaultAttemptTime, lookTime: defaultLookTime}
	// One that was at rest when another was lost is asked whether it is still there; to ask
	// each time would be a round trip more.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return s.now().Add(-p.IdleDuration).UnixNano() <= s.lost.Load()
	}
	config.PingTimeout = pingTimeout
	if err := s.migrate(ctx, at); err != nil {
		return nil, fmt.Errorf("open %s: %w", s.name, err)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open %s: %w", s.name, err)
	}
	if err := errors.Join(s.Ping(ctx), s.LookForWebhooks(ctx)); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

// OnCommit registers who is told how long each write took; here none shares its commit. It
// returns quickly.
func (s *Store) OnCommit(tell func(took time.Duration, units int)) { s.told.Store(&tell) }

// nameOf names a database in messages.
func nameOf(at *pgx.ConnConfig) string { return fmt.Sprintf("database %s on %s", at.Database, at.Host) }

// configure reads the connection string and sets what it leaves open.
func configure(connection secret.Text) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(connection.Reveal())
	if err != nil {
		// Not a word of it: what cannot be read may be a password anywhere.
		return nil, errors.New("its connection string cannot be read; want postgres://USER:PASSWORD@HOST:PORT/DATABASE and parameters that there are")
	}
	said := func(member string) bool { return strings.Contains(connection.Reveal(), member) }
	if !said("default_query_exec_mode") {
		// Statements without a name: what a statement looks like is asked once for each
		// connection and kept here, and every run of it is then one round trip that parses,
		// binds and executes. A pooler in transaction mode hands each transaction to another
		// server session, where a named statement (the driver's default) would not be found.
		// Exec mode would do too, but it sends bytes as hexadecimal text, and most of a journal
		// is bytes. Whoever has no pooler may choose cache_statement, which saves the planning.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !said("pool_max_conns") {
		config.MaxConns = defaultConns
	}
	if !said("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	// A server that is gone without a word is noticed on connections that are at rest, too.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.ValidateConnect == nil {
		// Of several hosts the primary; and never a standby, not even to read: it may be
		// behind what was acknowledged.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// Close waits for the calls that are under way and closes the connections. Calling it
// again does nothing.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// Ping reports whether the primary can be reached.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping %s: %w", s.name, err)
	}
	return nil
}

// Room returns nil, or the fault that says that nothing new can be written: for a moment
// after the database has said so, what is under way goes first.
func (s *Store) Room() error {
	if s.now().UnixNano() < s.full.Load() {
		return errFull()
	}
	return nil
}

func errFull() *agent.Error {
	return agent.Errorf(agent.KindStorageFull,
		"The disk of the server's database is full and nothing of this was stored. Free some space on it, then send the request again.")
}

// bounded gives a call that has no deadline one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// finishing gives a write a context that ends with the caller's deadline, but not when
// the caller gives up: a write that is broken off halfway has an unknown outcome.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(callTime)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// micros is how the database keeps a time.
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
