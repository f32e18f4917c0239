package outbound

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// script is a server that answers the requests of a connection with these bytes, one after
// another, and closes it when there are no more.
func script(t *testing.T, answers ...string) (url string, connects *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connects = &atomic.Int64{}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			all.Go(func() {
				defer conn.Close() //nolint:errcheck // the other end looks
				in := bufio.NewReader(conn)
				for _, a := range answers {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					_, _ = io.WriteString(conn, a)
				}
				// Not before the other end has had its time to read, and to ask again.
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				_, _ = in.Peek(1)
			})
		}
	})
	return "http://" + listener.Addr().String() + "/v1/responses?x=1", connects
}

// local is a transport that may connect to a URL.
func local(t *testing.T, url string) *Transport {
	t.Helper()
	tr := NewTransport(Policy{Configured: []string{url}})
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// told is an exchange as its caller sees it.
func told(t *testing.T, by http.RoundTripper, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close() //nolint:errcheck // as below
	data, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%s %d %v %v %q, whole %t", resp.Proto, resp.StatusCode, resp.Header, resp.ContentLength, data, err == nil)
}

// What a server may answer means the same to plain as to http.Transport, and costs as many
// connections.
func TestPlain_AnswersAsHTTPTransport(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		method  string
		answers []string
	}{
		"two in turn":               {"POST", []string{ok, ok}},
		"chunks":                    {"POST", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ok}},
		"chunks with a trailer":     {"POST", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n", ok}},
		"a chunk cut short":         {"POST", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"}},
		"chunks without an end":     {"POST", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}},
		"a length not reached":      {"POST", []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}},
		"until it is closed":        {"POST", []string{"HTTP/1.1 200 OK\r\n\r\nabc"}},
		"HTTP/1.0":                  {"POST", []string{"HTTP/1.0 200 OK\r\n\r\nabc"}},
		"no content":                {"POST", []string{"HTTP/1.1 204 No Content\r\n\r\n", ok}},
		"an empty body":             {"POST", []string{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", ok}},
		"HEAD":                      {"HEAD", []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"}},
		"closed by the server":      {"POST", []string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"}},
		"interim answers":           {"POST", []string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, ok}},
		"a redirect":                {"POST", []string{"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", ok}},
		"no HTTP":                   {"POST", []string{"SSH-2.0-OpenSSH_9.9\r\n"}},
		"nothing":                   {"POST", []string{""}},
		"half a header":             {"POST", []string{"HTTP/1.1 200 OK\r\nContent-"}},
		"a header that is too long": {"POST", []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n"}},
		"two lengths":               {"POST", []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"}},
		"a long header":             {"POST", []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes/2) + "\r\nContent-Length: 2\r\n\r\nok", ok}},
		"a large body":              {"POST", []string{"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300_000), ok}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want [2]string
			var cost [2]int64
			for i, answers := range []*[2]string{&got, &want} {
				url, connects := script(t, c.answers...)
				tr := local(t, url)
				by := http.RoundTripper(tr)
				if i == 1 {
					by = tr.base
				}
				for j := range answers {
					answers[j] = told(t, by, c.method, url, "hello")
					if len(c.answers) == 1 {
						time.Sleep(25 * time.Millisecond) // the server has closed
					}
				}
				cost[i] = connects.Load()
			}
			if got != want || cost[0] != cost[1] {
				t.Errorf("got, over %d connections, %.300q\nwant, over %d, %.300q", cost[0], got, cost[1], want)
			}
		})
	}
}

// What goes over the wire is what http.Transport would have sent.
func TestPlain_SendsAsHTTPTransport(t *testing.T) {
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprint(r.Method, r.URL, r.Host, r.Proto, r.Header, r.ContentLength, r.TransferEncoding, len(body), err))
	}))
	defer srv.Close()
	tr := local(t, srv.URL)
	for _, body := range []string{"", "x", strings.Repeat("x", maxPlainBody)} {
		for i, by := range []http.RoundTripper{tr, tr.base} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/a%2Fb?c=d", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer k")
			req.Header["x-odd"] = []string{"1", "2"}
			req.Host = "model.internal"
			if plain := tr.plain.carries(req); !plain {
				t.Errorf("a body of %d bytes is not carried", len(body))
			}
			resp, err := by.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if n := len(seen); i == 1 && seen[n-1] != seen[n-2] {
				t.Errorf("got %.400s\nwant %.400s", seen[n-2], seen[n-1])
			}
		}
	}
}

// What wants more than plain has goes to http.Transport.
func TestPlain_LeavesToHTTPTransport(t *testing.T) {
	p := &plain{}
	for name, change := range map[string]func(*http.Request){
		"https":           func(r *http.Request) { r.URL.Scheme = "https" },
		"a large body":    func(r *http.Request) { r.ContentLength = maxPlainBody + 1 },
		"unknown length":  func(r *http.Request) { r.ContentLength = -1 },
		"a name in IDN":   func(r *http.Request) { r.URL.Host = "bücher.example" },
		"an upgrade":      func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"an expectation":  func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"trailers wanted": func(r *http.Request) { r.Header.Set("Te", "trailers") },
		"trailers":        func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.internal/v1", strings.NewReader("x"))
		if !p.carries(req) {
			t.Fatal("a plain request is not carried")
		}
		if change(req); p.carries(req) {
			t.Errorf("%s is carried", name)
		}
	}
}

// A proxy of the operator's is used for http, too.
func TestPlain_KeepsToTheProxy(t *testing.T) {
	proxied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "by proxy: "+r.URL.String()) }))
	defer proxied.Close()
	wire := newTripwire(t)
	tr := local(t, wire.URL)
	proxy, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxied.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.environment = http.ProxyURL(proxy.URL)
	if got := told(t, tr, "POST", wire.URL, "x"); !strings.Contains(got, "by proxy: "+wire.URL) {
		t.Errorf("got %s", got)
	}
	if wire.connects.Load() != 0 {
		t.Error("the proxy was passed by")
	}
}

// The context ends an exchange at every stage: while it connects, writes, waits for the
// header, and reads.
func TestPlain_ContextEnds(t *testing.T) {
	why := errors.New("enough")
	stages := map[string]func(w http.ResponseWriter){
		"header": func(http.ResponseWriter) {},
		"body": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		},
	}
	for stage, begin := range stages {
		t.Run(stage, func(t *testing.T) {
			reached, over := make(chan struct{}), make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begin(w)
				close(reached)
				<-r.Context().Done() // the connection is closed
				close(over)
			}))
			defer srv.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-reached; cancel(why) }()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := local(t, srv.URL).RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
			<-over
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	p := &plain{dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, ctx.Err() }}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://model.internal/", strings.NewReader("x"))
	if _, err := p.roundTrip(req); !errors.Is(err, context.Canceled) {
		t.Errorf("dial: got %v", err)
	}
}

// Closing a body that somebody reads ends his Read and the connection.
func TestPlain_CloseWhileReading(t *testing.T) {
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(over)
	}))
	defer srv.Close()
	tr := local(t, srv.URL)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = resp.Body.Close() }()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body seems to be whole")
	}
	<-over
	if tr.plain.count != 0 {
		t.Error("the connection is kept")
	}
}

// A connection that the server has closed, or has said something on, is not used again: the
// request, which must not be sent twice, does not get lost on it.
func TestPlain_StaleConnections(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		first string
		pause time.Duration // in which the server closes
	}{
		"closed":                   {ok, 25 * time.Millisecond},
		"more than was asked for":  {ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 0},
		"more and closed":          {ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 25 * time.Millisecond},
		"more than buffers take":   {ok + strings.Repeat("evil", 1<<10), 0},
		"an answer and half of it": {ok + "HTTP/1.1 200", 0},
	} {
		t.Run(name, func(t *testing.T) {
			url, connects := script(t, c.first)
			tr := local(t, url)
			for range 3 {
				if got := told(t, tr, "POST", url, "x"); !strings.Contains(got, `"ok", whole true`) {
					t.Fatalf("got %s", got)
				}
				time.Sleep(c.pause)
			}
			if n := connects.Load(); n != 3 {
				t.Errorf("%d connections, want 3", n)
			}
		})
	}
}

// The hooks of traces tell whether there was a connection, and when the body is not needed
// any more.
func TestPlain_Traces(t *testing.T) {
	url, _ := script(t, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n")
	tr := local(t, url)
	for _, want := range []string{"get, got false, wrote <nil>", "get, got true, wrote <nil>"} {
		var seen []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn:      func(string) { seen = append(seen, "get") },
			GotConn:      func(i httptrace.GotConnInfo) { seen = append(seen, fmt.Sprint("got ", i.Reused)) },
			WroteRequest: func(i httptrace.WroteRequestInfo) { seen = append(seen, fmt.Sprint("wrote ", i.Err)) },
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A request is one write, so that it is one packet. Its body is closed whatever happens.
func TestPlain_RequestIsOneWrite(t *testing.T) {
	ends := &endless{}
	p := &plain{dial: func(context.Context, string, string) (net.Conn, error) { return ends, nil }}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.internal/", nil)
	req.ContentLength = 4000
	req.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 4000)))
	if _, err := p.roundTrip(req); err == nil || ends.writes != 1 || !ends.closed {
		t.Errorf("got %v, %d writes, closed %t", err, ends.writes, ends.closed)
	}
	body := &closing{Reader: strings.NewReader("x")}
	req.ContentLength, req.Body = 1, body
	if _, err := p.roundTrip(req); err == nil || !body.closed {
		t.Errorf("got %v, body closed %t", err, body.closed)
	}
}

// endless is a connection that has no answer.
type endless struct {
	net.Conn
	writes int
	closed bool
}

func (e *endless) Write(b []byte) (int, error) { e.writes++; return len(b), nil }
func (e *endless) Read([]byte) (int, error)    { return 0, io.EOF }
func (e *endless) Close() error                { e.closed = true; return nil }

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// Idle connections are closed after a while, the oldest first, and there are not too many.
func TestPlain_IdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plain{}
		conns := make([]*endless, idlePerHost+2)
		for i := range conns {
			conns[i] = &endless{}
			p.put(&plainConn{Conn: conns[i], hostPort: fmt.Sprintf("h%d:80", i%2)})
			if i == idlePerHost/2 {
				time.Sleep(idleTimeout / 2)
			}
		}
		state := func() (closed, kept int) {
			p.mu.Lock() // as whoever closes them does
			defer p.mu.Unlock()
			for _, c := range conns {
				if c.closed {
					closed++
				}
			}
			return closed, p.count
		}
		want := func(closed int) {
			t.Helper()
			if got, kept := state(); got != closed || kept != len(conns)-closed {
				t.Errorf("%d are closed and %d kept, want %d closed", got, kept, closed)
			}
		}
		want(2) // for which there was no room
		time.Sleep(idleTimeout/2 + time.Second)
		synctest.Wait()
		want(2 + idlePerHost/2 + 1)
		time.Sleep(idleTimeout)
		synctest.Wait()
		want(len(conns))
		if len(p.idle) != 0 || p.sweep != nil {
			t.Error("there is something left of them")
		}
	})
}

// Many requests at once, of which some are given up, mix up no answers.
func TestPlain_Many(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(body[len(body)/2:])
	}))
	defer srv.Close()
	tr := local(t, srv.URL)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				body := strings.Repeat(fmt.Sprintf("%d/%d ", i, j), 200)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				if j%7 == i%7 {
					go cancel() // sooner or later
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					var got []byte
					got, err = io.ReadAll(resp.Body)
					if !strings.HasPrefix(body, string(got)) || err == nil && string(got) != body {
						t.Errorf("%d/%d: got %.40q", i, j, got)
					}
					_ = resp.Body.Close()
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("%d/%d: %v", i, j, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
}
