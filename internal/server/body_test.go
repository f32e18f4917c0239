package server

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

// bodyRoutes are the routes that take a body.
func bodyRoutes() []route {
	var out []route
	for _, rt := range routes() {
		if len(rt.in.bodies) > 0 {
			out = append(out, rt)
		}
	}
	return out
}

func target(rt route) string {
	return strings.NewReplacer("{sessionId}", "s1", "{turnId}", "t1", "{approvalId}", "apr_1", "{keyId}", keyID, "{key}", "general", "{webhookId}", "wh_1", "{erasureId}", "ers_1", "{userId}", "ann", "{$}", "").Replace(rt.pattern)
}

func TestBody_MediaType(t *testing.T) {
	r := newRig(t)
	for _, rt := range bodyRoutes() {
		for _, tt := range []struct {
			header []string
			ok     bool
		}{
			{[]string{"Content-Type", "application/json"}, true},
			{[]string{"Content-Type", "application/json; charset=utf-8"}, true},
			{[]string{"Content-Type", "Application/JSON;charset=UTF-8"}, true},
			{[]string{"Content-Type", "application/json; charset=latin1"}, false},
			{[]string{"Content-Type", "application/json; boundary=x"}, false},
			{[]string{"Content-Type", "text/plain"}, false},
			{[]string{"Content-Type", "text/json"}, false},
			{[]string{"Content-Type", "application/x-www-form-urlencoded"}, false},
			{[]string{"Content-Type", "multipart/form-data; boundary=x"}, false},
			{[]string{"Content-Type", ""}, false},
			{[]string{"Content-Type", "application/json, text/plain"}, false},
			{[]string{"Content-Encoding", "gzip"}, false},
			{[]string{"Content-Encoding", "identity"}, true},
		} {
			a := r.do(t, rt.method, target(rt), `{"no_such_member":1}`, tt.header...)
			if p := a.problem(t); (p.Code != agent.KindUnsupportedMediaType) != tt.ok {
				t.Errorf("%s with %v: got %s", rt.id, tt.header, p.Code)
			}
		}
	}
}

// counter counts what is read from a body.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func TestBody_Limit(t *testing.T) {
	const limit = 1000
	fits := hello + strings.Repeat(" ", limit-len(hello))
	for _, tt := range []struct {
		name     string
		body     string
		declared int64
		tooLarge bool
		mostRead int64
	}{
		{"just fits", fits, limit, false, limit},
		{"just fits, undeclared", fits, -1, false, limit},
		{"one too many", fits + " ", limit + 1, true, 0},
		{"one too many, undeclared", fits + " ", -1, true, limit + 1},
		{"far too many, undeclared", fits + strings.Repeat(" ", 1<<20), -1, true, limit + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Limits.Body = limit })
			r.turns.completed()
			c := &counter{r: strings.NewReader(tt.body)}
			req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/agent/execute", c)
			req.ContentLength = tt.declared
			req.Host = "localhost"
			req.Header.Set("Content-Type", "application/json")
			a := r.serve(t, req)
			if tt.tooLarge {
				a.want(t, agent.KindPayloadTooLarge)
				if a.Header().Get("Connection") != "close" {
					t.Error("the connection is not closed")
				}
			} else {
				a.wantStatus(t, 200)
			}
			if c.n > tt.mostRead {
				t.Errorf("read %d bytes, want at most %d", c.n, tt.mostRead)
			}
		})
	}
}

func TestBody_DefaultLimitIs8MiB(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/agent/execute", strings.NewReader("{}"))
	req.ContentLength = 8<<20 + 1
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	r.serve(t, req).want(t, agent.KindPayloadTooLarge)
}

func TestPage_Parameters(t *testing.T) {
	r := newRig(t)
	for _, rt := range routes() {
		if len(rt.in.query) == 0 || rt.in.query[0] != "limit" {
			continue
		}
		for _, limit := range []string{"0", "201", "-1", "x", "1.5", "", "99999999999999999999"} {
			r.do(t, "GET", target(rt)+"?limit="+limit, "").want(t, agent.KindInvalidRequest)
		}
	}
	for _, path := range []string{"/v1/modes", "/v1/tools"} {
		r.do(t, "GET", path+"?cursor=nonsense", "").want(t, agent.KindInvalidRequest)
		r.do(t, "GET", path+"?limit=200", "").wantStatus(t, 200)
		r.do(t, "GET", path+"?limit=1", "").wantStatus(t, 200)
	}
}
