package embedding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider answers each request by the next of its answers, and then by embeddings that
// tell the length of each text.
type provider struct {
	*httptest.Server
	answers []func(w http.ResponseWriter)
	got     []request
}

type request struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	EncodingFormat string   `json:"encoding_format"`
	authorization  string
}

func newProvider(t *testing.T, answers ...func(w http.ResponseWriter)) *provider {
	p := &provider{answers: answers}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{authorization: r.Header.Get("Authorization")}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		p.got = append(p.got, req)
		if len(p.answers) > 0 {
			answer := p.answers[0]
			p.answers = p.answers[1:]
			answer(w)
			return
		}
		data := []string{}
		for i, text := range req.Input {
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,1]}`, i, len(text)))
		}
		slices.Reverse(data) // their order is nowhere promised
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[%s],"model":"m","usage":{"total_tokens":1}}`, strings.Join(data, ","))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) api(t *testing.T, c embedding.APIConfig) *embedding.API {
	t.Helper()
	c.BaseURL, c.Model, c.Backoff, c.Transport = p.URL+"/v1", "m", time.Millisecond, p.Client().Transport
	a, err := embedding.NewAPI(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func says(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func drops(w http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestAPI_InBatchesAndInOrder(t *testing.T) {
	p := newProvider(t)
	texts := []string{"", "a", "bb", "ccc", "dddd"}
	got, err := p.api(t, embedding.APIConfig{Key: secret.New("k"), Batch: 2}).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		// The direction tells the length of the text.
		if ratio := v[0] / v[1]; ratio < float32(i)-0.01 || ratio > float32(i)+0.01 {
			t.Errorf("vector %d is that of a text of %f bytes", i, ratio)
		}
	}
	want := []request{{"m", []string{"", "a"}, "float", "Bearer k"}, {"m", []string{"bb", "ccc"}, "float", "Bearer k"}, {"m", []string{"dddd"}, "float", "Bearer k"}}
	if diff := cmp.Diff(p.got, want, cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestAPI_TriesAgainWhatMayPass(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"429": says(429, ""), "500": says(500, "<html>"), "503": says(503, ""), "a dropped connection": drops,
		"429 with a pause that is too long": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "3600"); w.WriteHeader(429) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, answer, answer)
			if _, err := p.api(t, embedding.APIConfig{MaxWait: 5 * time.Millisecond}).Embed(t.Context(), []string{"a"}); err != nil || len(p.got) != 3 {
				t.Errorf("%d requests, %v; want the third to do", len(p.got), err)
			}
		})
	}
}

func TestAPI_RefusesWhatIsNoEmbedding(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"refused":          {says(401, `{"error":{"message":"bad key sk-canary"}}`), "401 Unauthorized"},
		"no list":          {says(200, "<html>"), "no list of embeddings"},
		"too few":          {says(200, `{"data":[{"index":0,"embedding":[1]}]}`), "1 embeddings for 2 texts"},
		"an index twice":   {says(200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`), "repeated index 0"},
		"a wrong index":    {says(200, `{"data":[{"index":0,"embedding":[1]},{"index":-1,"embedding":[1]}]}`), "index -1"},
		"empty":            {says(200, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[1]}]}`), "embedding of 0 numbers"},
		"different":        {says(200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`), "vectors of 1 and of 2 numbers"},
		"out of bounds":    {says(200, `{"data":[{"index":0,"embedding":[1e300]},{"index":1,"embedding":[1]}]}`), "out of all bounds"},
		"a redirect":       {func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(307) }, "307"},
		"a number too big": {says(200, `{"data":[{"index":0,"embedding":[1e999]},{"index":1,"embedding":[1]}]}`), "no list of embeddings"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, tc.answer)
			_, err := p.api(t, embedding.APIConfig{Key: secret.New("sk-canary")}).Embed(t.Context(), []string{"a", "b"})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "sk-canary") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if len(p.got) != 1 {
				t.Errorf("%d requests, want one", len(p.got))
			}
		})
	}
}

func TestAPI_EndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	p := newProvider(t, func(http.ResponseWriter) { <-release })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.api(t, embedding.APIConfig{}).Embed(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestNewAPI_WantsAddressAndModel(t *testing.T) {
	for _, c := range []embedding.APIConfig{{Model: "m"}, {BaseURL: "http://127.0.0.1/v1"}} {
		if _, err := embedding.NewAPI(c); err == nil {
			t.Errorf("NewAPI(%+v) is taken", c)
		}
	}
}
