package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aptixhq/aptix/internal/tool"
)

// Backoff is how long a server is left alone after it failed or was lost so many times in
// a row; a call that it answers ends the row. The first time it is started again at once.
func Backoff(failures int) time.Duration {
	const most = time.Minute
	switch {
	case failures <= 1:
		return 0
	case failures > 7:
		return most
	}
	return min(time.Second<<(failures-2), most)
}

// Offer is what the tools of servers are offered by; a tool.Registry is one.
type Offer interface {
	Withdraw(name, why string)
	Restore(name string)
}

// server is one MCP server: started when it is needed, and looked after.
type server struct {
	config ServerConfig
	log    *slog.Logger
	// tools are the approved ones, by their own names.
	tools  map[string]*Tool
	places chan struct{} // one for each call that may be under way
	work   sync.WaitGroup
	root   context.Context
	stop   context.CancelFunc

	// mu guards what follows.
	mu       sync.Mutex
	conn     *connection
	starting chan struct{} // closed when the start that is under way is over
	failures int
	failed   error // the last failure
	retry    time.Time
	closed   bool
	offer    Offer
	// withdrawn are tools, by their own names, that are not as they were approved.
	withdrawn map[string]string
	// unapproved is how many tools it declared that are not approved.
	unapproved int
}

func newServer(c ServerConfig, log *slog.Logger) *server {
	c = c.withDefaults()
	s := &server{config: c, log: log.With("server", c.Name), tools: map[string]*Tool{}, places: make(chan struct{}, c.Concurrency),
		withdrawn: map[string]string{}}
	s.root, s.stop = context.WithCancel(context.Background())
	return s
}

// call runs a tool. The error is for the model.
func (s *server) call(ctx context.Context, name string, arguments json.RawMessage, key string) (tool.Content, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return tool.Content{}, fmt.Errorf("the server %s has %d calls to answer already; call again later", s.config.Name, cap(s.places))
	}
	for again := true; ; again = false {
		conn, err := s.ready(ctx)
		if err != nil {
			return tool.Content{}, err
		}
		if why := s.why(name); why != "" {
			return tool.Content{}, fmt.Errorf("the tool is withdrawn: %s", why)
		}
		res, err := s.send(ctx, conn, name, arguments, key)
		if again && unsent(err) {
			s.lost(conn, err)
			continue
		}
		if unsent(err) {
			return tool.Content{}, fmt.Errorf("the connection to the server %s was lost again before the call was sent; call again later", s.config.Name)
		}
		if err != nil {
			return tool.Content{}, err
		}
		s.healthy()
		return s.read(res)
	}
}

// read turns what the server answered into a result, or into the tool's own error.
func (s *server) read(res *sdk.CallToolResult) (tool.Content, error) {
	out, err := read(res)
	if err != nil {
		return tool.Content{}, errors.New(s.config.concealed(err.Error()))
	}
	out.Text = s.config.concealed(out.Text)
	return out, nil
}

// send sends a call, once. What it returns tells whether the call may have had its effect.
func (s *server) send(ctx context.Context, conn *connection, name string, arguments json.RawMessage, key string) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// When this process stops, nobody waits for answers any more.
	defer context.AfterFunc(s.root, cancel)()
	ctx, exchange := withExchange(ctx)
	res, err := conn.session.CallTool(ctx, &sdk.CallToolParams{Meta: sdk.Meta{callKey: key}, Name: name, Arguments: arguments})
	switch said := answered(err); {
	case err == nil:
		return res, nil
	case unsent(err):
		return nil, err
	case said != nil:
		return nil, fmt.Errorf("the server refuses the call: %s", clip(s.config.concealed(said.Message), maxFault))
	}
	s.log.WarnContext(ctx, "MCP call without an answer", "tool", name, "error", s.config.concealedForLog(err.Error()))
	if conn.process == nil && exchange.refused() {
		return nil, fmt.Errorf("the server %s could not be reached, or refused the call; nothing was done", s.config.Name)
	}
	return nil, &tool.UnknownOutcome{Text: fmt.Sprintf(
		"The server %s did not answer: the call may have been carried out or not. Check before you repeat it.", s.config.Name)}
}

// unsent reports whether a call certainly reached no tool and may be sent over another
// connection: this one was over before, or the server was started anew and knows no
// session of before.
func unsent(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

// answered returns the error that the server answered with, nil when the error is one of
// the way to it. The SDK has codes of its own for those.
func answered(err error) *jsonrpc.Error {
	const clientClosing, serverClosing, rejected = -32003, -32004, -32005
	said := (*jsonrpc.Error)(nil)
	if !errors.As(err, &said) || slices.Contains([]int64{clientClosing, serverClosing, rejected}, said.Code) {
		return nil
	}
	return said
}

// ready returns a connection whose tools were compared with the approved ones lately.
func (s *server) ready(ctx context.Context) (*connection, error) {
	for again := true; ; again = false {
		conn, err := s.connected(ctx)
		if err != nil {
			return nil, err
		}
		if err = s.check(ctx, conn); err == nil {
			return conn, nil
		}
		s.log.WarnContext(ctx, "MCP server cannot be checked", "error", s.config.concealedForLog(err.Error()))
		if ctx.Err() == nil {
			s.lost(conn, err)
		}
		if !again || !unsent(err) {
			return nil, fmt.Errorf("the server %s does not say which tools it has, so none is called; call again later", s.config.Name)
		}
	}
}

// check looks at the server's list when the last look is too old, or the server says that
// the list has changed.
func (s *server) check(ctx context.Context, conn *connection) error {
	conn.checking.Lock()
	defer conn.checking.Unlock()
	if !conn.stale.Load() && time.Since(conn.checked) < s.config.Recheck {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	conn.stale.Store(false) // what changes from here on makes it stale again
	declared, err := conn.list(ctx)
	if err != nil {
		conn.stale.Store(true)
		return err
	}
	s.compare(declared)
	conn.checked = time.Now()
	return nil
}

// compare withdraws the approved tools that are not declared as they were approved, and
// takes back those that are again.
func (s *server) compare(declared []Definition) {
	faults := faultsOf(s.config, declared)
	s.mu.Lock()
	defer s.mu.Unlock()
	unapproved := 0
	for _, d := range declared {
		if s.tools[d.Name] == nil && s.config.uses(d.Name) {
			unapproved++
		}
	}
	if unapproved != s.unapproved && unapproved > 0 {
		s.log.Warn("MCP server declares tools that are not approved; they are not offered", "tools", unapproved, "approve", "aptix mcp approve "+s.config.Name)
	}
	s.unapproved = unapproved
	for name, t := range s.tools {
		why := ""
		switch d := find(declared, name); {
		case d == nil:
			why = "its server does not declare it any more"
		case faults[name] != nil:
			why = "its server declares it in a way that cannot be used: " + faults[name].Error()
		case d.SHA256 != t.approved.SHA256:
			why = "its server has changed its definition since it was approved; an operator must approve it anew"
		}
		s.withdraw(name, t, why)
	}
}

// withdraw notes why a tool is withdrawn, or that it is not. The caller holds mu.
func (s *server) withdraw(name string, t *Tool, why string) {
	if s.withdrawn[name] == why {
		return
	}
	if why == "" {
		delete(s.withdrawn, name)
		s.log.Info("MCP tool is as it was approved again", "tool", t.definition.Name)
	} else {
		s.withdrawn[name] = why
		s.log.Error("MCP tool is withdrawn", "tool", t.definition.Name, "why", why)
	}
	switch {
	case s.offer == nil:
	case why == "":
		s.offer.Restore(t.definition.Name)
	default:
		s.offer.Withdraw(t.definition.Name, why)
	}
}

// why returns why a tool is withdrawn, "" when it is not.
func (s *server) why(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withdrawn[name]
}

// healthy ends a row of failures.
func (s *server) healthy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.failed = 0, nil
}

// connected returns the connection, and starts the server when there is none. Whoever
// comes meanwhile waits for the same start.
func (s *server) connected(ctx context.Context) (*connection, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, fmt.Errorf("the server %s is being stopped", s.config.Name)
		case s.conn != nil && s.conn.alive():
			defer s.mu.Unlock()
			return s.conn, nil
		case s.conn != nil:
			s.lostLocked(s.conn, errors.New("the connection was lost"))
		}
		wait := s.starting
		if wait == nil {
			if rest := time.Until(s.retry); rest > 0 {
				defer s.mu.Unlock()
				return nil, fmt.Errorf("the server %s does not work and is left alone for %s; call again later, or do without it",
					s.config.Name, rest.Round(time.Second))
			}
			wait = make(chan struct{})
			s.starting = wait
			s.work.Go(func() { s.start(wait) })
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("the server %s has not started in time; call again later", s.config.Name)
		}
		if err := s.startFailed(); err != nil {
			return nil, err
		}
	}
}

// startFailed returns an error for the model when the last start was in vain.
func (s *server) startFailed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil || s.failed == nil {
		return nil
	}
	return fmt.Errorf("the server %s could not be started; do without its tools, or call again later", s.config.Name)
}

// start makes a connection.
func (s *server) start(over chan struct{}) {
	defer close(over)
	ctx, cancel := context.WithTimeout(s.root, s.config.StartTimeout)
	defer cancel()
	conn, err := connect(ctx, s.config, s.log)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = nil
	if err != nil {
		s.failLocked(err)
		return
	}
	if s.closed {
		s.work.Go(conn.close)
		return
	}
	s.conn = conn
}

// lost takes a connection for lost.
func (s *server) lost(conn *connection, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.lostLocked(conn, err)
	}
}

func (s *server) lostLocked(conn *connection, err error) {
	s.conn = nil
	s.work.Go(conn.close)
	s.failLocked(err)
}

// failLocked counts a failure.
func (s *server) failLocked(err error) {
	if s.closed {
		return
	}
	s.failures++
	s.failed = err
	rest := Backoff(s.failures)
	s.retry = time.Now().Add(rest)
	s.log.Error("MCP server failed", "error", s.config.concealedForLog(err.Error()), "failures", s.failures, "leftAloneFor", rest)
}

// close ends the server and returns when nothing of it is left.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	s.stop()
	if conn != nil {
		conn.close()
	}
	s.work.Wait()
}
