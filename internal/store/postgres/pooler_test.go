package postgres

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/aptixhq/aptix/internal/store/storetest"
)

// pooler is a pooler in transaction mode at its worst: each transaction of a client goes
// to another server session than the one before it.
type pooler struct {
	listener net.Listener
	socket   string
	work     sync.WaitGroup
}

// newPooler starts a pooler in front of the server of the tests.
func newPooler(t *testing.T) *pooler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{listener: l, socket: cluster.Socket()}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.work.Wait() // the stores are closed by then
	})
	return p
}

// through returns the connection string by which the database is reached over the pooler.
func (p *pooler) through(database string) string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return database + " host=127.0.0.1 port=" + port
}

// serve passes on what a client says until it leaves.
func (p *pooler) serve(client net.Conn) {
	defer client.Close()
	startup, err := next(client, true)
	if err != nil || isCancel(startup) {
		return
	}
	var sessions [2]net.Conn
	for i := range sessions {
		s, err := net.Dial("unix", p.socket)
		if err != nil {
			return
		}
		defer s.Close()
		sessions[i] = s
		greeting := io.Discard
		if i == 0 {
			greeting = client
		}
		if _, err := s.Write(startup); err != nil {
			return
		}
		if _, err := relay(greeting, s); err != nil {
			return
		}
	}
	for at := 0; ; {
		message, err := next(client, false)
		if err != nil {
			return
		}
		if _, err := sessions[at].Write(message); err != nil {
			return
		}
		if message[0] != 'S' && message[0] != 'Q' {
			continue
		}
		status, err := relay(client, sessions[at])
		if err != nil {
			return
		}
		if status == 'I' {
			at = 1 - at // the transaction is over
		}
	}
}

// relay passes on what the server says until it is ready for the next query, and returns
// whether it is in a transaction then.
func relay(to io.Writer, from io.Reader) (status byte, err error) {
	for {
		message, err := next(from, false)
		if err != nil {
			return 0, err
		}
		if _, err := to.Write(message); err != nil {
			return 0, err
		}
		if message[0] == 'Z' {
			if len(message) != 6 {
				return 0, errors.New("ReadyForQuery without a status")
			}
			return message[5], nil
		}
	}
}

// Behind a pooler everything is as without one.
func TestStore_BehindAPooler(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() storetest.Store {
		database := cluster.Database(t)
		database = newPooler(t).through(database)
		return func() storetest.Store { return open(t, database) }
	})
}
