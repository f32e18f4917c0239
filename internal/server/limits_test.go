package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/quota"
)

// L-6: of a body that is too long no more than its limit and 64 KiB is taken off the
// connection, with the limit that servers have.
func TestLimits_BodyIsReadNoFurther(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		limit := int(r.limits.Body)
		c := dial()
		sent := make(chan int, 1)
		go func() {
			n := 0
			send(t, c, "POST /v1/agent/execute", "Transfer-Encoding: chunked\r\n\r\n")
			chunk := "1000\r\n" + strings.Repeat(" ", 4096) + "\r\n"
			for n < 2*limit {
				m, err := io.WriteString(c, chunk)
				n += m
				if err != nil {
					break
				}
			}
			sent <- n
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		over := <-sent - limit
		t.Logf("L-6: of a body of %d MiB and more, %d bytes behind the limit were taken, framing included", limit>>20, over)
		if res.StatusCode != http.StatusRequestEntityTooLarge || over > 64<<10 {
			t.Errorf("got %d; %d bytes behind the limit", res.StatusCode, over)
		}
	})
}

// L-8: a compressed body is refused everywhere, whatever the compression, and not read.
func TestLimits_CompressedBodies(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	refused := 0
	for _, rt := range bodyRoutes() {
		for _, encoding := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "gzip, identity", "identity, gzip", "GZIP", "unknown"} {
			c := &counter{r: bytes.NewReader(bomb.Bytes())}
			req := httptest.NewRequestWithContext(t.Context(), rt.method, target(rt), c)
			req.Host = "localhost"
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Content-Encoding", encoding)
			r.serve(t, req).want(t, agent.KindUnsupportedMediaType)
			if c.n > 0 {
				t.Errorf("%s: %d bytes were read of a body with Content-Encoding %s", rt.id, c.n, encoding)
			}
			refused++
		}
	}
	t.Logf("L-8: %d of %d compressed bodies refused, 0 bytes of them read", refused, refused)
}

// plainBodies are bodies that are right, by operation.
var plainBodies = map[string]string{
	"execute":        hello,
	"preview":        hello,
	"createSession":  `{"sessionId":"s9","systemPrompt":"Answer briefly."}`,
	"setMode":        `{"mode":"general","reason":"because"}`,
	"setTools":       `{"tools":[]}`,
	"branchSession":  `{"sessionId":"s8"}`,
	"decideApproval": `{"decision":"approve"}`,
	"createResponse": `{"input":"hello"}`,
	"createKey":      `{"user":"ann"}`,
}

// L-9: JSON that two readers could understand differently, or that is too deep or too wide,
// is refused by every endpoint that takes a body, and by all for the same reason.
func TestLimits_JSONVerdicts(t *testing.T) {
	inside := func(add string) func(string) string {
		return func(body string) string { return strings.TrimSuffix(body, "}") + "," + add + "}" }
	}
	firstName := func(body string) string { return body[2 : 2+strings.IndexByte(body[2:], '"')] }
	rename := func(change func(string) string) func(string) string {
		return func(body string) string {
			name := firstName(body)
			return inside(`"` + change(name) + `":"x"`)(body)
		}
	}
	wide := make([]string, 10_001)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"m%d":1`, i)
	}
	verdicts := map[string]func(string) string{
		"65 deep":                inside(`"x":` + strings.Repeat("[", 65) + strings.Repeat("]", 65)),
		"100,000 deep":           inside(`"x":` + strings.Repeat("[", 100_000)),
		"10,001 members":         inside(`"x":{` + strings.Join(wide, ",") + `}`),
		"10,001 elements":        inside(`"x":[1` + strings.Repeat(",1", 10_000) + `]`),
		"a member twice":         func(body string) string { return inside(`"` + firstName(body) + `":"x"`)(body) },
		"an unknown one twice":   inside(`"x":1,"x":2`),
		"twice by an escape":     rename(func(n string) string { return fmt.Sprintf(`\u%04x`, n[0]) + n[1:] }),
		"another case":           rename(func(n string) string { return strings.ToUpper(n[:1]) + n[1:] }),
		"all capitals":           rename(strings.ToUpper),
		"a long s":               rename(func(n string) string { return strings.Replace(n+"s", "s", "ſ", 1) }),
		"a Kelvin sign":          rename(func(n string) string { return n + "K" }),
		"a lone high surrogate":  inside(`"x":"\ud800"`),
		"a lone low surrogate":   inside(`"x":"\udc00x"`),
		"a surrogate in a name":  inside(`"\ud800":1`),
		"invalid UTF-8":          inside("\"x\":\"\xff\""),
		"overlong UTF-8":         inside("\"x\":\"\xc0\xaf\""),
		"NUL as it is":           inside("\"x\":\"\x00\""),
		"NUL escaped":            inside(`"x":"\u0000"`),
		"1e400":                  inside(`"x":1e400`),
		"-1e400":                 inside(`"x":-1e400`),
		"NaN":                    inside(`"x":NaN`),
		"a leading zero":         inside(`"x":01`),
		"a second value":         func(body string) string { return body + `{}` },
		"the body twice":         func(body string) string { return body + body },
		"trailing text":          func(body string) string { return body + ` x` },
		"trailing NUL":           func(body string) string { return body + "\x00" },
		"a comma at the end":     func(body string) string { return strings.TrimSuffix(body, "}") + ",}" },
		"a comment":              func(body string) string { return "/**/" + body },
		"a byte order mark":      func(body string) string { return "\ufeff" + body },
		"an array around it":     func(body string) string { return "[" + body + "]" },
		"single quotes":          func(body string) string { return strings.ReplaceAll(body, `"`, `'`) },
		"nothing but whitespace": func(string) string { return " \n " },
		"cut short":              func(body string) string { return body[:len(body)-1] },
	}
	r := newWhole(t, func(p *parts) { p.door = true })
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`).wantStatus(t, 201)
	given := 0
	for _, rt := range bodyRoutes() {
		plain, ok := plainBodies[rt.id]
		if !ok {
			t.Errorf("%s takes a body and is not in this test", rt.id)
			continue
		}
		if rt.id == "createKey" {
			// The first key has to be an admin's, and from then on nobody is let in without one.
		} else if a := r.do(t, rt.method, target(rt), plain); a.Code == http.StatusBadRequest || a.Code == http.StatusUnprocessableEntity {
			t.Errorf("%s refuses what is right: %d %s", rt.id, a.Code, a.Body)
		}
		for name, spoil := range verdicts {
			if rt.in.optional && name == "nothing but whitespace" {
				continue // as good as no body
			}
			a := r.do(t, rt.method, target(rt), spoil(plain))
			if a.Code != http.StatusBadRequest && a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with %s: got %d %s", rt.id, name, a.Code, a.Body)
			}
			given++
		}
	}
	t.Logf("L-9: %d bodies on %d endpoints, each answered with 400 or 422", given, len(bodyRoutes()))
}

// artifacts returns a turn with these contents, in base64.
func bombOf(contents ...string) []byte {
	type artifact struct {
		RelativePath string `json:"relativePath"`
		FileName     string `json:"fileName"`
		Contents     string `json:"contents"`
		Origin       string `json:"origin"`
		Encoding     string `json:"encoding"`
	}
	turn := struct {
		SessionID      string     `json:"sessionId"`
		TurnID         string     `json:"turnId"`
		Instruction    string     `json:"instruction"`
		InputArtifacts []artifact `json:"inputArtifacts"`
	}{"s1", "t1", "Look.", nil}
	for i, c := range contents {
		name := fmt.Sprintf("f%d.bin", i)
		turn.InputArtifacts = append(turn.InputArtifacts, artifact{name, name, c, "ide", "base64"})
	}
	b, err := json.Marshal(turn)
	if err != nil {
		panic(err)
	}
	return b
}

func imagesOf(n int, data string) []byte {
	var images []string
	for i := range n {
		images = append(images, fmt.Sprintf(`{"id":"i%d","mimeType":"image/png","dataBase64":%q}`, i, data))
	}
	return []byte(`{"sessionId":"s1","turnId":"t1","instruction":"Look.","clipboardImages":[` + strings.Join(images, ",") + `]}`)
}

// L-7: bodies of base64 that are as large as a body may be, right and wrong, take less than
// three times the limit of memory; and those that go over a bound are refused.
func TestLimits_Base64Bombs(t *testing.T) {
	const limit = 8 << 20
	const overhead = 4 << 10
	data := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	// A picture of 50,000 by 50,000 pixels that says so in 33 bytes: nobody decodes it.
	pixels := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xc3\x50\x00\x00\xc3\x50\x08\x06\x00\x00\x00"
	for name, tt := range map[string]struct {
		body []byte
		ok   bool
	}{
		"as much as fits":             {bombOf(data(3<<20-overhead), data(3<<20-overhead)), true},
		"one artifact too large":      {bombOf(data(4<<20 + 1)), false},
		"too many artifacts":          {bombOf(make([]string, 33)...), false},
		"invalid alphabet at the end": {bombOf(strings.Repeat("A", limit-overhead) + "!!!!"), false},
		"URL alphabet":                {bombOf(strings.Repeat("_", limit-overhead)), false},
		"no padding":                  {bombOf(strings.Repeat("A", limit-overhead-1)), false},
		"padding in the middle":       {bombOf("AA==" + strings.Repeat("A", limit-overhead)), false},
		"line breaks":                 {bombOf(strings.Repeat("AAAA\n", (limit-overhead)/6)), false},
		"20 images":                   {imagesOf(20, data((limit-overhead)/20*3/4-100)), true},
		"21 images":                   {imagesOf(21, data(100)), false},
		"a pixel bomb":                {imagesOf(20, base64.StdEncoding.EncodeToString([]byte(pixels))), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.turns.completed()
			if len(tt.body) > limit {
				t.Fatalf("the body has %d bytes and is refused for that", len(tt.body))
			}
			send := func() int {
				req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/agent/execute", bytes.NewReader(tt.body))
				req.Host = "localhost"
				req.Header.Set("Content-Type", "application/json")
				return r.serve(t, req).Code
			}
			used, code := peak(send)
			// What a collector that is late has not freed yet is no need of the request's.
			for try := 0; used > 3*limit && try < 4; try++ {
				used, code = peak(send)
			}
			t.Logf("L-7: a body of %.1f MiB: %d, %.1f MiB of memory, %.2f times the limit", mib(len(tt.body)), code, mib(used), float64(used)/limit)
			if (code == http.StatusOK) != tt.ok || !tt.ok && code != http.StatusBadRequest {
				t.Errorf("got %d", code)
			}
			if used > 3*limit && passedBy == 0 { // the race detector takes memory of its own
				t.Errorf("%d bytes of memory were taken, more than three times the limit", used)
			}
		})
	}
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

// peak returns how much more of the heap was taken at a time while f ran, with what was not
// collected yet: the collector runs often, as it does where memory is short.
func peak(f func() int) (bytes, result int) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	objects := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() int {
		metrics.Read(objects)
		return int(objects[0].Value.Uint64())
	}
	before := read()
	stop, most := make(chan struct{}), make(chan int)
	go func() {
		seen := before
		for {
			select {
			case <-stop:
				most <- max(seen, read())
				return
			case <-time.After(50 * time.Microsecond):
				seen = max(seen, read())
			}
		}
	}()
	result = f()
	close(stop)
	return <-most - before, result
}

// D-6: bodies that arrive together take no more room than there is for them; the others are
// told to come again, before they are read. The room is free again afterwards.
func TestLimits_BodiesAtATime(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.turns.completed()
		r.bodies.left.Store(1000)
		slow := dial()
		send(t, slow, "POST /v1/agent/execute", "Content-Length: 900\r\n\r\n{")
		time.Sleep(time.Second) // of the bubble: it is being read
		ask := func() *http.Response {
			c := dial()
			send(t, c, "POST /v1/agent/execute", sized(hello+strings.Repeat(" ", 200)))
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := ask(); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
			t.Errorf("got %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
		if _, after := ended(t, slow, time.Now()); after > 10*time.Second {
			t.Errorf("the slow one was given up after %s", after)
		}
		if res := ask(); res.StatusCode != http.StatusOK {
			t.Errorf("got %d when there is room", res.StatusCode)
		}
		if left := r.bodies.left.Load(); left != 1000 {
			t.Errorf("%d of 1000 bytes are free when all is over", left)
		}
	})
}

func TestQuotas_Requests(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Quotas = quota.Plans{Default: quota.Limits{Requests: quota.Rate{PerSecond: 0.01, Burst: 2}}}
	})
	r.do(t, "GET", "/v1/modes", "").wantStatus(t, 200)
	r.do(t, "GET", "/v1/nothing", "").want(t, agent.KindNotFound)
	c := &counter{r: strings.NewReader(hello)}
	r.do(t, "GET", "/v1/modes", "").wantStatus(t, 200)
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/agent/execute", c)
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	a := r.serve(t, req)
	a.want(t, agent.KindRateLimited)
	if after := a.Header().Get("Retry-After"); after != "100" || c.n > 0 {
		t.Errorf("Retry-After %q, want 100; %d bytes of the body were read", after, c.n)
	}
	for _, path := range []string{"/livez", "/readyz", "/docs"} {
		r.do(t, "GET", path, "").wantStatus(t, 200)
	}
}

func TestQuotas_Streams(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.quotas.plans.Default.Streams = 2
		r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
		r.turns.follow = hang
		get := func() (net.Conn, int) {
			c := dial()
			send(t, c, "GET /v1/sessions/s1/turns/t1/events", "\r\n")
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			return c, res.StatusCode
		}
		first, code := get()
		_, second := get()
		_, third := get()
		if code != 200 || second != 200 || third != http.StatusTooManyRequests {
			t.Errorf("got %d, %d, %d", code, second, third)
		}
		c := dial()
		send(t, c, "POST /v1/agent/execute", sized(`{"sessionId":"s2","turnId":"t1","instruction":"hello","stream":true}`))
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("a turn with a stream: %v, %v", res, err)
		}
		if len(r.turns.submitted) != 0 {
			t.Error("a turn was begun whose stream cannot be opened")
		}
		_ = first.Close()
		time.Sleep(time.Minute) // of the bubble: a heartbeat finds out
		if _, code := get(); code != 200 {
			t.Errorf("got %d when one has gone", code)
		}
	})
}

func TestUsage_WithoutBudgets(t *testing.T) {
	got := decode[Spending](t, newRig(t).do(t, "GET", "/v1/usage", ""))
	if got.Org != "local" || got.Budgets == nil || len(got.Budgets) != 0 {
		t.Errorf("got %+v", got)
	}
}
