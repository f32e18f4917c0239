package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/quota"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
)

// Config holds the parts of a Server. Turns, Sessions, Catalog, Registry and Log are
// required; the zero values of the rest are the documented defaults.
type Config struct {
	Turns    Turns
	Sessions Sessions
	Catalog  Catalogs
	Registry *tool.Registry
	Log      *slog.Logger

	// Responses is the door for clients of OpenAI's Responses API; nil keeps it shut.
	Responses Responses
	// Audit, Erasures and Webhooks are doors that are shut when they are nil.
	Audit    AuditLog
	Erasures Erasures
	Webhooks Webhooks
	// Console has the pages for people; nil is a server without any.
	Console Console
	// Ready reports what keeps the server from serving, such as a store that does
	// not answer; nil means that nothing can.
	Ready func(context.Context) error
	// Auth names callers. Nil means that nobody authenticates: everything belongs to
	// organisation and user `local`, and only loopback names are answered.
	Auth Authenticator
	// Open reports that nobody has to authenticate at the moment, though there is Auth; nil
	// means that everybody has.
	Open func() bool
	// Keys manages the keys; nil is a server without any.
	Keys Keys
	// Loopback tells that only this machine can reach the server, which then answers to
	// loopback names and Hosts alone. So does a server on which nobody authenticates.
	Loopback bool
	// Hosts are names of the server, without port. Elsewhere they are, beside loopback names,
	// the only ones that are answered; with none every name is.
	Hosts []string
	// Proxies are those whose word about their clients' addresses is taken.
	Proxies []netip.Prefix
	// Limits bound request bodies.
	Limits contract.Limits
	// Bodies is how many bytes of request bodies may be in memory at a time; default an
	// eighth of the runtime's memory limit, or 512 MiB where it has none.
	Bodies int64
	// Quotas bound what callers do at a time; the zero value bounds nothing.
	Quotas quota.Plans
	// Budgets tell what was spent; nil when nothing is limited.
	Budgets *budget.Keeper
	// Telemetry has the metrics; nil is a server without any.
	Telemetry *telemetry.Telemetry
	// Heartbeat is how long a stream is silent before it says that it lives;
	// default 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long a client may take nothing of its answer before it is
	// cut off; default 30 s.
	WriteTimeout time.Duration
	// BodyTimeout bounds the reading of a request body; default 30 s. A body that
	// stands still, or only drips, is given up after a third of it.
	BodyTimeout time.Duration
}

// Server is the HTTP edge. Build it with New.
type Server struct {
	turns    Turns
	sessions Sessions
	catalog  Catalogs
	registry *tool.Registry
	second   Responses
	audit    AuditLog
	erasures Erasures
	webhooks Webhooks
	console  Console
	log      *slog.Logger
	ready    func(context.Context) error
	auth     Authenticator
	open     func() bool
	keys     Keys
	loopback bool
	hosts    []string
	proxies  []netip.Prefix
	limits   contract.Limits
	budgets  *budget.Keeper
	quotas   quotas
	bodies   bodies
	noted    *telemetry.Telemetry

	heartbeat, writeTimeout, bodyTimeout, bodyIdle, parkAfter time.Duration

	origins  *http.CrossOriginProtection
	mux      *http.ServeMux
	manual   func() (*manual, error) // half a megabyte, written when it is first asked for
	draining atomic.Bool
	lot      lot
}

// New returns a server, or an error when a part is missing or a route is not
// classified.
func New(c Config) (*Server, error) {
	if c.Turns == nil || c.Sessions == nil || c.Catalog == nil || c.Registry == nil || c.Log == nil {
		return nil, errors.New("server: Turns, Sessions, Catalog, Registry and Log are all required")
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Open == nil {
		c.Open = func() bool { return c.Auth == nil }
	}
	if c.Limits.Body <= 0 {
		c.Limits.Body = 8 << 20
	}
	s := &Server{
		turns: c.Turns, sessions: c.Sessions, catalog: c.Catalog, registry: c.Registry,
		second: c.Responses, console: c.Console, audit: c.Audit, erasures: c.Erasures, webhooks: c.Webhooks, log: c.Log, ready: c.Ready, auth: c.Auth, open: c.Open,
		keys: c.Keys, loopback: c.Loopback, hosts: c.Hosts, proxies: c.Proxies, limits: c.Limits,
		noted: c.Telemetry, budgets: c.Budgets, quotas: quotas{plans: c.Quotas, rates: quota.NewRates()},
		heartbeat:    or(c.Heartbeat, 15*time.Second),
		writeTimeout: or(c.WriteTimeout, 30*time.Second),
		bodyTimeout:  or(c.BodyTimeout, 30*time.Second),
		origins:      http.NewCrossOriginProtection(),
		manual:       sync.OnceValues(writeManual),
	}
	s.bodyIdle = s.bodyTimeout / 3
	s.parkAfter, s.lot.closing = parkAfter, make(chan struct{})
	if c.Bodies <= 0 {
		c.Bodies = defaultRoom(c.Limits.Body)
	}
	s.bodies.left.Store(c.Bodies)
	var err error
	if s.mux, err = s.mount(append(routes(), pageRoutes(c.Console)...)); err != nil {
		return nil, err
	}
	return s, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Handler returns the server as a handler.
func (s *Server) Handler() http.Handler { return s }

// HTTPServer returns a server for addr with every limit set that net/http leaves
// open: it has no timeout for a whole request, because turns are long; reading and
// writing are bounded step by step instead.
func (s *Server) HTTPServer(addr string) *http.Server {
	web := &http.Server{
		Addr:              addr,
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		Protocols:         onlyHTTP1(),
		// OPTIONS * is answered like every other path that does not exist.
		DisableGeneralOptionsHandler: true,
	}
	web.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		boundSendBuffer(c)
		if !canWatch(c) {
			return ctx
		}
		return context.WithValue(ctx, webKey{}, web)
	}
	return web
}

// onlyHTTP1 keeps TLS from bringing HTTP/2 along: slow clients, bodies and streams are
// bounded connection by connection.
func onlyHTTP1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// sendBuffer is how much of its answers the system keeps for a client that does not take
// them, in bytes, of which Linux makes twice as many. Left to itself it keeps megabytes,
// and it is late when we hear of a client that has stopped reading.
const sendBuffer = 256 << 10

func boundSendBuffer(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // a connection that refuses it works as well
	}
}

// Drain makes the server refuse new turns and report that it is not ready. What runs
// goes on, and reads are answered, until the http.Server is shut down.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }
