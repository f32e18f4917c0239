package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// scripted is a transport that gives its answers one after the other, the last one for
// ever, and notes when it was asked.
type scripted struct {
	answers []func(r *http.Request) (*http.Response, error)

	mu sync.Mutex // guards at
	at []time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.at)
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	return s.answers[min(n, len(s.answers)-1)](r)
}

func (s *scripted) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// waits returns the pauses between the calls.
func (s *scripted) waits() []time.Duration {
	var out []time.Duration
	for i := 1; i < len(s.at); i++ {
		out = append(out, s.at[i].Sub(s.at[i-1]))
	}
	return out
}

type step = func(r *http.Request) (*http.Response, error)

func status(code int, header ...string) step {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: http.NoBody, Request: r}, nil
	}
}

func says(contentType, body string) step {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// breaks is a connection that breaks, before there is one or after.
func breaks(connected bool) step {
	return func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("x:1")
		if connected {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		return nil, io.ErrUnexpectedEOF
	}
}

var whole = says("application/json", document)

func provide(cfg llm.ProviderConfig, answers ...step) (*llm.Provider, *scripted) {
	s := &scripted{answers: answers}
	cfg.Client = llm.New(llm.Config{BaseURL: "http://x/v1", Transport: s})
	return llm.NewProvider(cfg), s
}

func askProvider(t testing.TB, p *llm.Provider, ctx context.Context) got {
	t.Helper()
	var g got
	for ev, err := range p.Ask(ctx, &llm.Wire{Head: `{}`}, true) {
		g.take(t, ev, err)
	}
	return g
}

func TestProvider_RepeatsOnlyWhatWasCertainlyNotGenerated(t *testing.T) {
	for name, tc := range map[string]struct {
		first    step
		attempts int
	}{
		"408":                         {status(408), 2},
		"409":                         {status(409), 2},
		"429":                         {status(429), 2},
		"500":                         {status(500), 2},
		"502":                         {status(502), 2},
		"503":                         {status(503), 2},
		"504":                         {status(504), 2},
		"529":                         {status(529), 2},
		"no connection":               {breaks(false), 2},
		"a connection that broke":     {breaks(true), 1},
		"a transport that says not":   {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 1},
		"400":                         {status(400), 1},
		"401":                         {status(401), 1},
		"404":                         {status(404), 1},
		"422":                         {status(422), 1},
		"501":                         {status(501), 1},
		"307":                         {status(307), 1},
		"200 without an answer":       {says("text/event-stream", ""), 1},
		"200 and a page":              {says("text/html", "<html>"), 1},
		"200, cut after a delta":      {says("text/event-stream", sse(sixty()[:9]...)), 1},
		"200, an error after a delta": {says("text/event-stream", sse(append(sixty()[:9], `{"type":"error","code":"server_error"}`)...)), 1},
		"200, an error at once":       {says("text/event-stream", sse(`{"type":"error","code":"rate_limit_exceeded"}`)), 1},
		"a budget that is used up": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(`{"error":{"code":"insufficient_quota"}}`))}, nil
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := provide(llm.ProviderConfig{}, tc.first, whole)
				g := askProvider(t, p, t.Context())
				want(t, s.calls(), tc.attempts)
				if want(t, g.Err == nil, tc.attempts > 1); tc.attempts == 1 {
					want(t, agent.KindOf(g.Err), agent.KindProviderFailed)
				}
			})
		})
	}
}

func TestProvider_HonoursRetryAfterUpToItsCap(t *testing.T) {
	const least, most = 250 * time.Millisecond, 500 * time.Millisecond // the first pause when nothing is asked for
	for name, tc := range map[string]struct {
		header     []string
		from, to   time.Duration // the pause
		failsAfter time.Duration // what the client is told instead
	}{
		"seconds":              {header: []string{"Retry-After", "7"}, from: 7 * time.Second, to: 8 * time.Second},
		"fractions":            {header: []string{"Retry-After", "1.5"}, from: 1500 * time.Millisecond, to: 1700 * time.Millisecond},
		"milliseconds":         {header: []string{"Retry-After-Ms", "1500"}, from: 1500 * time.Millisecond, to: 1700 * time.Millisecond},
		"milliseconds first":   {header: []string{"Retry-After", "20", "Retry-After-Ms", "1500"}, from: 1500 * time.Millisecond, to: 1700 * time.Millisecond},
		"exactly the cap":      {header: []string{"Retry-After", "30"}, from: 30 * time.Second, to: 30 * time.Second},
		"a date":               {header: []string{"Retry-After", "date+9s"}, from: 8 * time.Second, to: 10 * time.Second},
		"a date that is past":  {header: []string{"Retry-After", "Wed, 21 Oct 1998 07:28:00 GMT"}, from: least, to: most},
		"absent":               {from: least, to: most},
		"zero":                 {header: []string{"Retry-After", "0"}, from: least, to: most},
		"negative":             {header: []string{"Retry-After", "-5"}, from: least, to: most},
		"NaN":                  {header: []string{"Retry-After", "NaN"}, from: least, to: most},
		"words":                {header: []string{"Retry-After", "soon"}, from: least, to: most},
		"bad milliseconds":     {header: []string{"Retry-After", "7", "Retry-After-Ms", "-1"}, from: 7 * time.Second, to: 8 * time.Second},
		"over the cap":         {header: []string{"Retry-After", "31"}, failsAfter: 31 * time.Second},
		"an hour":              {header: []string{"Retry-After", "3600"}, failsAfter: time.Hour},
		"huge":                 {header: []string{"Retry-After", "1e300"}, failsAfter: 24 * time.Hour},
		"beyond all numbers":   {header: []string{"Retry-After", "1e999"}, failsAfter: 24 * time.Hour},
		"infinite":             {header: []string{"Retry-After", "Inf"}, failsAfter: 24 * time.Hour},
		"a date far off":       {header: []string{"Retry-After", "Wed, 21 Oct 2215 07:28:00 GMT"}, failsAfter: 24 * time.Hour},
		"many milliseconds":    {header: []string{"Retry-After-Ms", "86400000"}, failsAfter: 24 * time.Hour},
		"of another time zone": {header: []string{"Retry-After", "yesterday"}, from: least, to: most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				header := append([]string(nil), tc.header...)
				for i, h := range header {
					if h == "date+9s" {
						header[i] = time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)
					}
				}
				p, s := provide(llm.ProviderConfig{}, status(429, header...), whole)
				start := time.Now()
				g := askProvider(t, p, t.Context())
				if tc.failsAfter > 0 {
					var e *agent.Error
					if !errors.As(g.Err, &e) {
						t.Fatalf("got %v, want a fault", g.Err)
					}
					want(t, e.RetryAfter, tc.failsAfter)
					want(t, time.Since(start), time.Duration(0))
					want(t, s.calls(), 1)
					return
				}
				want(t, g.Err, nil)
				if w := s.waits(); len(w) != 1 || w[0] < tc.from || w[0] > tc.to {
					t.Errorf("waited %v, want %v to %v", w, tc.from, tc.to)
				}
			})
		})
	}
}

func TestProvider_GivesUp(t *testing.T) {
	t.Run("after its attempts, with ever longer pauses", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, s := provide(llm.ProviderConfig{Attempts: 5}, status(503))
			g := askProvider(t, p, t.Context())
			want(t, g.Err.Error(), "provider_failed: The provider answered 503 Service Unavailable.: 5 attempts, the last one: status 503")
			want(t, s.calls(), 5)
			longest := 500 * time.Millisecond
			for _, w := range s.waits() {
				if w < longest/2 || w > longest {
					t.Errorf("waited %v, want %v to %v", w, longest/2, longest)
				}
				longest *= 2
			}
		})
	})
	t.Run("when the caller does, at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p, s := provide(llm.ProviderConfig{}, status(429, "Retry-After", "20"))
			time.AfterFunc(3*time.Second, cancel)
			start := time.Now()
			if err := askProvider(t, p, ctx).Err; !errors.Is(err, context.Canceled) || agent.KindOf(err) != agent.KindInternal {
				t.Errorf("got %v, want the caller's cancel", err)
			}
			want(t, time.Since(start), 3*time.Second)
			want(t, s.calls(), 1)
		})
	})
	t.Run("when the caller's time would not do", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			p, _ := provide(llm.ProviderConfig{}, status(429, "Retry-After", "20"))
			start := time.Now()
			want(t, agent.KindOf(askProvider(t, p, ctx).Err), agent.KindProviderFailed)
			want(t, time.Since(start), time.Duration(0))
		})
	})
	t.Run("when all attempts together take too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			slow := func(r *http.Request) (*http.Response, error) {
				pause(r.Context(), 50*time.Second)
				if r.Context().Err() != nil {
					return nil, r.Context().Err()
				}
				return status(503)(r)
			}
			s := &scripted{answers: []step{slow}}
			p := llm.NewProvider(llm.ProviderConfig{Attempts: 99, Faults: 99, Client: llm.New(llm.Config{BaseURL: "http://x", Transport: s, Timeout: 2 * time.Minute})})
			start := time.Now()
			want(t, agent.FaultOf(askProvider(t, p, t.Context()).Err), agent.Fault{Kind: agent.KindProviderTimeout,
				Message: "The provider did not finish within 2m0s; try again later."})
			want(t, time.Since(start), 2*time.Minute)
		})
	})
	t.Run("never, when one attempt is all", func(t *testing.T) {
		p, s := provide(llm.ProviderConfig{Attempts: 1}, status(503))
		askProvider(t, p, t.Context())
		want(t, s.calls(), 1)
	})
}

// A connection that is used again is no better proof than a new one: net/http itself
// sends some requests again on those, and must not send ours.
func TestProvider_ADropOnAUsedConnectionIsNotRepeated(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", h2), func(t *testing.T) {
			var posts atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if posts.Add(1) > 1 {
					panic(http.ErrAbortHandler)
				}
				answer("application/json", document)(w, r)
			}))
			s.EnableHTTP2 = h2
			s.StartTLS()
			defer s.Close()
			c := llm.New(llm.Config{BaseURL: s.URL, Transport: s.Client().Transport})
			defer c.Close()
			p := llm.NewProvider(llm.ProviderConfig{Client: c, Backoff: time.Microsecond})
			want(t, askProvider(t, p, t.Context()).Err, nil)
			want(t, agent.KindOf(askProvider(t, p, t.Context()).Err), agent.KindProviderFailed)
			want(t, posts.Load(), int32(2))
		})
	}
}

const leftAlone = "The provider failed too often in a row and is left alone for a moment; try again later."

func TestProvider_BreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provide(llm.ProviderConfig{Attempts: 1, Faults: 3, Rest: 10 * time.Second},
			status(500), says("text/event-stream", ""), breaks(true), // three faults of three kinds
			status(500), // the first probe
			whole)
		for range 3 {
			want(t, agent.KindOf(askProvider(t, p, t.Context()).Err), agent.KindProviderFailed)
		}
		refused := func(rest time.Duration) {
			t.Helper()
			calls := s.calls()
			want(t, agent.FaultOf(askProvider(t, p, t.Context()).Err), agent.Fault{Kind: agent.KindProviderFailed, Message: leftAlone, RetryAfter: rest})
			want(t, s.calls(), calls)
		}
		refused(10 * time.Second)
		time.Sleep(9 * time.Second)
		refused(time.Second)
		time.Sleep(time.Second)
		want(t, agent.FaultOf(askProvider(t, p, t.Context()).Err).Message, "The provider answered 500 Internal Server Error.")
		refused(10 * time.Second)
		time.Sleep(10 * time.Second)
		want(t, askProvider(t, p, t.Context()).Err, nil)
		want(t, askProvider(t, p, t.Context()).Err, nil)
		want(t, s.calls(), 6)
	})
}

func TestProvider_BreakerLetsOneProbeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p, s := provide(llm.ProviderConfig{Attempts: 1, Faults: 1, Rest: time.Second}, status(500),
			func(r *http.Request) (*http.Response, error) {
				select {
				case <-release:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
				return whole(r)
			})
		askProvider(t, p, t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		probe := func(ctx context.Context) { go func() { done <- askProvider(t, p, ctx).Err }() }
		probe(ctx)
		synctest.Wait()
		want(t, agent.FaultOf(askProvider(t, p, t.Context()).Err).Message, leftAlone)
		want(t, s.calls(), 2)
		// A probe whose caller goes away says nothing: the next call is one too.
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancel", err)
		}
		probe(t.Context())
		close(release)
		want(t, <-done, nil)
		want(t, askProvider(t, p, t.Context()).Err, nil)
	})
}

func TestProvider_WhatDoesNotOpenTheBreaker(t *testing.T) {
	incomplete := says("application/json", `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`)
	for name, answers := range map[string][]step{
		"refusals of the request": {status(400), status(401), status(404), status(422), status(400)},
		"incomplete answers":      {incomplete},
		"faults between answers":  {status(500), whole, status(500), whole, status(500), whole},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := provide(llm.ProviderConfig{Attempts: 1, Faults: 2}, answers...)
			for range 6 {
				askProvider(t, p, t.Context())
			}
			want(t, s.calls(), 6)
		})
	}
}

// At 100 % errors for ten minutes the provider gets fewer calls than were asked for,
// and the breaker opens within ten seconds.
func TestProvider_NoRetryStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provide(llm.ProviderConfig{}, status(503))
		start := time.Now()
		refused := make(chan time.Duration, 1) // when the breaker was first seen open
		var turns sync.WaitGroup
		var opened time.Duration
		asked, askedBefore, sentBefore := 0, 0, 0
		for time.Since(start) < 10*time.Minute {
			asked++
			turns.Go(func() {
				if agent.FaultOf(askProvider(t, p, t.Context()).Err).Message == leftAlone {
					select {
					case refused <- time.Since(start):
					default:
					}
				}
			})
			time.Sleep(100 * time.Millisecond)
			if opened == 0 && len(refused) > 0 {
				opened, askedBefore, sentBefore = <-refused, asked, s.calls()
			}
		}
		turns.Wait()
		if opened == 0 || opened > 10*time.Second {
			t.Errorf("the breaker opened after %v, want within 10s", opened)
		}
		offered, sent := asked-askedBefore, s.calls()-sentBefore
		t.Logf("opened after %v; since then %d turns asked %d times", opened, offered, sent)
		if float64(sent) > 1.2*float64(offered) {
			t.Errorf("%d turns asked %d times", offered, sent)
		}
	})
}

func TestProvider_BoundsTheCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		held := func(r *http.Request) (*http.Response, error) { <-release; return whole(r) }
		p, s := provide(llm.ProviderConfig{Concurrency: 2, Queue: 5 * time.Second}, held)
		done := make(chan error, 9)
		for range 3 {
			go func() { done <- askProvider(t, p, t.Context()).Err }()
		}
		synctest.Wait()
		want(t, s.calls(), 2)
		start := time.Now()
		want(t, agent.FaultOf(<-done), agent.Fault{Kind: agent.KindRateLimited, RetryAfter: 5 * time.Second,
			Message: "All 2 calls to the provider that may run at once are taken; try again later."})
		want(t, time.Since(start), 5*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- askProvider(t, p, ctx).Err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancel", err)
		}
		go func() { done <- askProvider(t, p, t.Context()).Err }() // waits, and gets its place
		synctest.Wait()
		close(release)
		for range 3 {
			want(t, <-done, nil)
		}
		want(t, s.calls(), 3)
	})
}

func TestProvider_LeavingAnAnswerFreesItsPlace(t *testing.T) {
	p, _ := provide(llm.ProviderConfig{Concurrency: 1}, says("text/event-stream", sse(sixty()...)))
	for range 3 {
		for ev, err := range p.Ask(t.Context(), &llm.Wire{}, true) {
			want(t, err, nil)
			want(t, ev.Delta, "w0 ")
			break
		}
	}
}
