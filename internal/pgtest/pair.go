package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pair is a primary that commits nothing which its standby does not have on disk, and the
// standby. It is used by one goroutine, but for Socket.
type Pair struct {
	t                testing.TB
	primary, standby *server
	socket           atomic.Pointer[string]
}

// NewPair starts a pair that goes with the test, and returns it with one empty database.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{t: t}
	s, err := newServer(true)
	need(t, err)
	p.lead(s)
	t.Cleanup(func() {
		for _, s := range []*server{p.primary, p.standby} {
			if s == nil {
				continue
			}
			if err := s.remove(); err != nil {
				t.Error(err)
			}
		}
	})
	p.must(s.initialise())
	p.must(s.launch())
	s.administer(t, "CREATE DATABASE "+pairDatabase)
	p.Mend()
	return p
}

const pairDatabase = "pair"

func (p *Pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// DSN is the connection string of the database on the primary.
func (p *Pair) DSN() string { return p.primary.dsn(pairDatabase) }

// Socket is the path of the unix socket on which the primary listens. Anybody may ask.
func (p *Pair) Socket() string { return *p.socket.Load() }

// lead makes a server the primary.
func (p *Pair) lead(s *server) {
	socket := s.socket()
	p.primary = s
	p.socket.Store(&socket)
}

// Fail kills the primary (SIGKILL) and makes the standby the primary, which then has no
// standby: see Mend. The old primary never comes back.
func (p *Pair) Fail() {
	p.t.Helper()
	old := p.primary
	p.must(old.end("KILL"))
	p.must(p.standby.run("pg_ctl", "promote", "-D", p.standby.data(), "-w", "-t", "60", "-s"))
	p.lead(p.standby)
	p.standby = nil
	// Nobody would acknowledge: whoever manages a pair does this when it has lost a half.
	p.primary.administer(p.t, "ALTER SYSTEM SET synchronous_standby_names = ''")
	p.primary.administer(p.t, "SELECT pg_reload_conf()")
	p.must(old.remove())
}

// Mend gives the primary a new standby and returns when it is synchronous.
func (p *Pair) Mend() {
	p.t.Helper()
	s, err := newServer(true)
	p.must(err)
	p.standby = s
	p.must(s.run("pg_basebackup", "-h", p.primary.folder, "-U", "aptix", "-D", s.data(), "-R", "-X", "stream", "-c", "fast"))
	p.must(os.Chmod(s.data(), 0o700))
	p.must(s.launch())
	p.primary.administer(p.t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.primary.administer(p.t, "SELECT pg_reload_conf()")
	p.synchronous()
}

func (p *Pair) synchronous() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.primary.dsn("postgres"))
	p.must(err)
	defer func() { _ = conn.Close(ctx) }()
	for {
		var n int
		p.must(conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&n))
		if n > 0 {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(p.standby.folder, "log"))
			p.must(fmt.Errorf("the standby does not follow: %w\n%s", ctx.Err(), log))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
