package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestMetrics_AreForOperators: the metrics are those of all organisations, and have none of
// their ids.
// It holds row S-7 of docs/security.md.
func TestMetrics_AreForOperators(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = &changing{} }) // a user
	if got := r.do(t, "GET", "/metrics", "").Code; got != 403 {
		t.Errorf("a user is answered %d, want 403", got)
	}
	r = newRig(t, func(c *Config) { c.Auth = anOperator{} })
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", strings.Replace(hello, `"s1"`, `"canary-session"`, 1))
	a := r.do(t, "GET", "/metrics", "")
	a.wantStatus(t, 200)
	text := a.Body.String()
	for _, canary := range []string{"canary-session", "acme", "ann", "t1"} {
		if strings.Contains(text, canary) {
			t.Errorf("the metrics hold %q", canary)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if families["aptix_http_requests_total"] == nil {
		t.Errorf("no requests are counted:\n%s", text)
	}
}

// TestMetricsServer_Guard: the listener without a credential answers to addresses, loopback
// names and the server's own, and has nothing but the metrics.
// It holds row S-3 of docs/security.md.
func TestMetricsServer_Guard(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth, c.Hosts = anOperator{}, []string{"api.example.com"} })
	web := r.MetricsServer("127.0.0.1:0")
	for _, tt := range []struct {
		method, host, path, site string
		want                     int
	}{
		{"GET", "localhost:9464", "/metrics", "", 200},
		{"GET", "127.0.0.1:9464", "/metrics", "", 200},
		{"HEAD", "[::1]:9464", "/metrics", "", 200},
		{"GET", "10.1.2.3:9464", "/metrics", "", 200},
		{"GET", "api.example.com", "/metrics", "", 200},
		{"GET", "evil.com:9464", "/metrics", "", 403},
		{"GET", "127.0.0.1.nip.io", "/metrics", "", 403},
		{"GET", "2130706433", "/metrics", "", 403},
		{"GET", "", "/metrics", "", 403},
		{"GET", "localhost", "/metrics", "cross-site", 403},
		{"POST", "localhost", "/metrics", "", 405},
		{"GET", "localhost", "/", "", 404},
		{"GET", "localhost", "/v1/sessions", "", 404},
		{"GET", "localhost", "/debug/pprof/", "", 404},
	} {
		req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
		req.Host = tt.host
		if tt.site != "" {
			req.Header.Set("Sec-Fetch-Site", tt.site)
		}
		w := httptest.NewRecorder()
		web.Handler.ServeHTTP(w, req)
		if w.Code != tt.want {
			t.Errorf("%s %s of %q: got %d, want %d", tt.method, tt.path, tt.host, w.Code, tt.want)
		}
	}
}

// TestLogs_IDsOfARequest: the line of a request names its id, its turn and its trace; what is
// not there is not named.
func TestLogs_IDsOfARequest(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := newRig(t)
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello, "X-Request-Id", "req-7", "Traceparent", parent, "Baggage", "secret=1")
	for _, want := range []string{"requestId=req-7", "turn=local/s1/t1", "traceId=0af7651916cd43dd8448eb211c80319c"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("no %s in %s", want, r.log)
		}
	}
	r.log.Reset()
	r.do(t, "GET", "/v1/sessions/nobody-has-it", "", "Traceparent", "00-nonsense")
	if line := r.log.String(); strings.Contains(line, "nobody-has-it") || strings.Contains(line, "traceId") || strings.Contains(line, "nonsense") {
		t.Errorf("log: %s", line)
	}
}
