package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// exchange is one request as the edge sees it: what the log says about it at the
// end, and who makes it.
type exchange struct {
	id     string
	route  string // the pattern; a path may hold what a log should not
	class  class
	caller agent.Caller
	turn   agent.TurnKey // that the request names, or the session alone
	page   bool          // people read the answer
	// identified is when that was last made sure of.
	identified time.Time
	err        error
	gone       bool  // the client hung up or stopped reading
	body       int64 // how much room its body holds
	read       bool  // the whole body has been read
	start      time.Time
	parked     *parked // what goes on when the handler has returned
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// callerOf returns who makes the request.
func callerOf(r *http.Request) agent.Caller { return exchangeOf(r).caller }

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// maxRequestID is how many characters a request's id may have.
const maxRequestID = 64

// requestID takes the client's id of the request when it can be printed safely.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); len(id) <= maxRequestID && requestIDPattern.MatchString(id) {
		return id
	}
	return "req_" + strings.ToLower(rand.Text())
}

// ServeHTTP runs one request from end to end: guards it, routes it, renders the error
// if there is one, and writes its line in the log.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &writer{ResponseWriter: rw, rc: http.NewResponseController(rw), timeout: s.writeTimeout}
	x := &exchange{id: requestID(r), start: time.Now()}
	r = r.WithContext(telemetry.Extract(context.WithValue(r.Context(), exchangeKey{}, x), r.Header))
	r.RemoteAddr = s.clientAddr(r) // of the copy; whoever asks is told the client's
	w.Header().Set("X-Request-Id", x.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		// Also for a route that does not look at its body: net/http reads the rest
		// of it after the handler.
		_ = http.NewResponseController(w).SetReadDeadline(x.start.Add(s.bodyIdle))
	}

	if err := s.dispatch(w, r); err != nil {
		x.err = err
	}
	if x.parked != nil {
		go x.parked.run()
		return
	}
	if !s.finish(w, r, x) {
		// Cut the connection, so that nobody takes half an answer for a whole one.
		panic(http.ErrAbortHandler)
	}
}

// finish renders the error if there is one and writes the request's line in the log. It
// reports whether the answer is whole.
func (s *Server) finish(w *writer, r *http.Request, x *exchange) bool {
	s.bodies.letGo(x)
	// A body that does not arrive ends the context too, but there is somebody to tell.
	x.gone = w.err != nil || r.Context().Err() != nil && (x.err == nil || agent.KindOf(x.err) == agent.KindInternal)
	half := x.err != nil && w.status != 0
	if x.err != nil && !half && !x.gone {
		s.writeFault(w, r, x)
	}
	s.logExchange(r, x, w.status, time.Since(x.start))
	s.noted.Request(x.route, strconv.Itoa(w.status))
	if errors.Is(w.err, os.ErrDeadlineExceeded) {
		s.noted.ReaderCut()
	}
	return !half
}

// writeFault tells what went wrong in the form that the path speaks.
func (s *Server) writeFault(w http.ResponseWriter, r *http.Request, x *exchange) {
	switch {
	case x.page && s.console != nil:
		p := problemOf(agent.FaultOf(x.err), x.id)
		sayWhen(w.Header(), x.err, p.Code)
		s.console.Fault(w, r, p)
	case speaksOpenAI(r.URL.Path):
		writeOpenAIError(w, x.err)
	default:
		writeProblem(w, x.err, x.id)
	}
}

// dispatch guards and routes a request and turns a panic into an error.
func (s *Server) dispatch(w *writer, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	if err := s.guard(r); err != nil {
		return err
	}
	// net/http would answer an unclean path with a redirect page.
	if p := r.URL.EscapedPath(); p != path.Clean(p) {
		return errNoRoute()
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

// mount builds the mux: every route, 405 for another method on its path, and 404 for
// the rest, all as problems.
func (s *Server) mount(routes []route) (*http.ServeMux, error) {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for i := range routes {
		rt := &routes[i] // as it is large, and below every open stream on the stack
		if err := rt.check(); err != nil {
			return nil, err
		}
		forPeople := rt.forPeople()
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(r)
			x.route, x.page = rt.pattern, forPeople
			x.err = s.run(rt, w, r)
		})
		methods[rt.pattern] = append(methods[rt.pattern], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.pattern] = append(methods[rt.pattern], http.MethodHead)
		}
	}
	for pattern, allowed := range methods {
		allow := strings.Join(allowed, ", ")
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(r)
			x.route = pattern
			w.Header().Set("Allow", allow)
			x.err = agent.Errorf(agent.KindMethodNotAllowed, "%s takes %s.", pattern, allow)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { exchangeOf(r).err = errNoRoute() })
	return mux, nil
}

func errNoRoute() error {
	return agent.Errorf(agent.KindNotFound, "There is nothing at this path. /docs lists what there is.")
}

// run names the caller and calls the handler.
func (s *Server) run(rt *route, w http.ResponseWriter, r *http.Request) error {
	r, err := s.named(rt, r)
	if err != nil {
		return err
	}
	return rt.handle(s, w, r)
}

// named returns the request with who makes it. (It is a function of its own so that its
// room is not on the stack of every open stream.)
func (s *Server) named(rt *route, r *http.Request) (*http.Request, error) {
	who, err := s.identify(rt.class, r)
	if err != nil {
		return nil, err
	}
	x := exchangeOf(r)
	x.class, x.caller, x.identified = rt.class, who, time.Now()
	if rt.class == public {
		return r, nil
	}
	if err := s.quotas.request(who); err != nil {
		return nil, err
	}
	return r.WithContext(agent.WithOrigin(agent.WithCaller(r.Context(), who), originOf(r, x))), nil
}

// logExchange writes the one line that a request leaves: never its body, never its
// path.
func (s *Server) logExchange(r *http.Request, x *exchange, status int, took time.Duration) {
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("route", x.route), slog.Int("status", status),
		slog.Int64("ms", took.Milliseconds()), slog.String("requestId", x.id), slog.String("client", r.RemoteAddr),
	}
	level := slog.LevelInfo
	// What is not there is a text that anybody may have written.
	if found := x.err == nil || agent.KindOf(x.err) != agent.KindNotFound; found && x.turn.Turn != "" {
		attrs = append(attrs, slog.String("turn", x.turn.String()))
	} else if found && x.turn.Session != "" {
		attrs = append(attrs, slog.String("session", string(x.turn.Session)))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("code", string(agent.KindOf(x.err))), slog.Any("error", x.err))
		if agent.KindOf(x.err) == agent.KindInternal {
			level = slog.LevelError
		}
	}
	if p := (*panicError)(nil); errors.As(x.err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	if x.gone {
		attrs = append(attrs, slog.Bool("clientGone", true))
		level = slog.LevelInfo
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// writer remembers what of an answer is out, and gives every piece of it a deadline:
// a client that takes nothing for the length of the timeout is cut off, one that is
// merely slow is not.
type writer struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	status  int
	err     error // the first write that failed
	// extended is when the deadline was last set.
	extended time.Time
}

// piece is how much of an answer one deadline covers.
const piece = 64 << 10

func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for next := range slices.Chunk(b, piece) {
		w.extend()
		m, err := w.ResponseWriter.Write(next)
		n += m
		if err != nil {
			return n, w.failed(err)
		}
	}
	return n, nil
}

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	w.extend()
	if err := w.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return w.failed(err)
	}
	return nil
}

// extend gives the client its time anew. A deadline that is nearly as good stays: a
// stream writes many times a second.
func (w *writer) extend() {
	now := time.Now()
	if now.Sub(w.extended) < w.timeout/32 {
		return
	}
	w.extended = now
	_ = w.rc.SetWriteDeadline(now.Add(w.timeout)) // not every writer has a connection behind it
}

func (w *writer) failed(err error) error {
	if w.err == nil {
		w.err = err
	}
	return err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// panicError is a panic that was caught at the edge.
type panicError struct {
	value any
	stack []byte
}

func panicked(v any) *panicError { return &panicError{value: v, stack: debug.Stack()} }

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }
