package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// connection is a session with a server, and the process behind it when it is local.
type connection struct {
	session *sdk.ClientSession
	process *process // nil when it is remote
	release func()
	ended   chan struct{} // closed when nothing is left of it
	leave   sync.Once

	// checking is held while the list is compared with what was approved; checked is when
	// that was, stale tells that the server says it has changed since.
	checking sync.Mutex
	checked  time.Time
	stale    atomic.Bool
}

// connect starts a local server, or reaches a remote one, and introduces itself.
func connect(ctx context.Context, c ServerConfig, log *slog.Logger) (*connection, error) {
	conn := &connection{ended: make(chan struct{}), release: func() {}}
	var transport sdk.Transport
	if c.URL != "" {
		transport, conn.release = remoteTransport(c)
	} else {
		p, err := startProcess(c, log)
		if err != nil {
			return nil, err
		}
		conn.process = p
		transport = &sdk.IOTransport{Reader: half{p}, Writer: half{p}, MaxLineLength: c.MaxBytes}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "aptix", Version: "1"}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), // it repeats what the errors say
		// A server gets nothing from us but calls: no folders, no model, no user.
		Capabilities:           &sdk.ClientCapabilities{},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { conn.stale.Store(true) },
	})
	client.AddSendingMiddleware(uncached)
	session, err := introduce(ctx, client, transport, conn)
	if err != nil {
		return nil, err
	}
	conn.session = session
	go conn.watch()
	return conn, nil
}

// introduce is the handshake. The SDK heeds the context where it waits for an answer, and
// not where it waits for a process that does not read: the end of the process ends both.
func introduce(ctx context.Context, client *sdk.Client, transport sdk.Transport, conn *connection) (*sdk.ClientSession, error) {
	stop := context.AfterFunc(ctx, func() {
		if conn.process != nil {
			killGroup(conn.process.cmd.Process, syscall.SIGKILL)
		}
	})
	session, err := client.Connect(ctx, transport, nil)
	if stop() && err == nil {
		return session, nil
	}
	if err == nil {
		err = ctx.Err()
		_ = session.Close()
	}
	if conn.process != nil {
		_ = conn.process.Close()
		err = errors.Join(err, conn.process.err)
	}
	conn.release()
	return nil, fmt.Errorf("no session with the server: %w", err)
}

// watch ends what belongs to the session when it is over, whoever ended it.
func (c *connection) watch() {
	_ = c.session.Wait()
	c.close()
}

// close ends the session and the process. It returns when both are gone.
func (c *connection) close() {
	c.leave.Do(func() {
		if c.process != nil {
			_ = c.process.Close() // ends the session, too
		}
		_ = c.session.Close()
		c.release()
		close(c.ended)
	})
	<-c.ended
}

// alive reports whether calls can still be sent.
func (c *connection) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return c.process == nil || c.process.alive()
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// list asks the server for all of its tools.
func (c *connection) list(ctx context.Context) ([]Definition, error) {
	var out []Definition
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := c.session.ListTools(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("read the list of tools: %w", err)
		}
		if len(out)+len(page.Tools) > maxTools {
			return nil, fmt.Errorf("the server declares more than %d tools", maxTools)
		}
		for _, t := range page.Tools {
			d, err := define(t)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
		if page.NextCursor == "" {
			return out, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("the list of tools does not end: it has more than %d parts", maxPages)
}

// uncached keeps the SDK from answering for a server that says how long its list holds:
// what is asked for is what the server declares now.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if list, ok := res.(*sdk.ListToolsResult); ok && list != nil {
			list.TTLMs = 0
		}
		return res, err
	}
}
