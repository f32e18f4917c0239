// Package pgtest runs a PostgreSQL server for tests: a cluster of its own, made by the
// installed binaries in a temporary folder, which goes when the tests have ended, however
// they end. In a turn the package has no part.
//
// Where PostgreSQL is not installed the tests that need it are skipped and say so; with
// APTIX_REQUIRE_POSTGRES=1 they fail instead.
package pgtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Cluster is a PostgreSQL server for the tests of one binary. The zero value is ready: it
// starts when the first test asks for a database. Give TestMain's M to Around, which
// stops it.
type Cluster struct {
	// Durable makes commits wait for the disk, as they do in earnest; else nothing is
	// synced, which is much quicker.
	Durable bool
	// Prepare fills the template, of which all that Database makes are copies: to copy
	// tables takes a fraction of the time that migrations do. It leaves no connection
	// behind. Without it databases are empty.
	Prepare func(connection string) error

	mu       sync.Mutex // guards what follows
	tried    bool
	err      error // why it did not start
	server   *server
	database int // how many were made
}

// template is the database that Prepare has filled.
const template = "prepared"

// Database makes a database that goes with the test, and returns its connection string.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	if c.Prepare == nil {
		return c.Empty(t)
	}
	return c.create(t, " TEMPLATE "+template)
}

// Empty is Database without what Prepare does.
func (c *Cluster) Empty(t testing.TB) string {
	t.Helper()
	return c.create(t, "")
}

func (c *Cluster) create(t testing.TB, options string) string {
	t.Helper()
	need(t, c.start())
	c.mu.Lock()
	c.database++
	name := fmt.Sprint("test", c.database)
	c.mu.Unlock()
	c.server.administer(t, "CREATE DATABASE "+name+options)
	// A test may have left connections behind, such as those of a process that it killed.
	t.Cleanup(func() { c.server.administer(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return c.server.dsn(name)
}

// URL is Database with the connection string as a URL, for those who take no other.
func (c *Cluster) URL(t testing.TB) string {
	t.Helper()
	at, err := pgx.ParseConfig(c.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("postgres:///%s?host=%s&user=%s&sslmode=disable", at.Database, c.server.folder, at.User)
}

// Socket is the path of the unix socket on which the server listens, for those that stand
// between a client and it.
func (c *Cluster) Socket() string { return c.server.socket() }

// Around runs the tests and stops the server.
func (c *Cluster) Around(m interface{ Run() int }) interface{ Run() int } { return around{c, m} }

type around struct {
	c *Cluster
	m interface{ Run() int }
}

// Run implements what goleak wants of a testing.M.
func (a around) Run() int {
	code := a.m.Run()
	if err := a.c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		code = max(code, 1)
	}
	return code
}

// Crash ends the server as a crash does, and starts it again: it has to recover from its
// log.
func (c *Cluster) Crash(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.server.kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.server.launch(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server and removes all it has written.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil
	}
	return c.server.remove()
}

// start starts the server, once.
func (c *Cluster) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tried {
		c.tried = true
		if c.server, c.err = newServer(c.Durable); c.err == nil {
			c.err = errors.Join(c.server.initialise(), c.server.launch())
		}
		if c.err == nil && c.Prepare != nil {
			if c.err = c.server.execute("CREATE DATABASE " + template); c.err == nil {
				c.err = c.Prepare(c.server.dsn(template))
			}
		}
	}
	return c.err
}
