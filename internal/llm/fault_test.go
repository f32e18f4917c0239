package llm_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// refusing is a provider that answers with a status.
func refusing(status int, header http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestRefused_NamesTheStatusAndTheProvidersOwnWords(t *testing.T) {
	asJSON := http.Header{"Content-Type": {"application/json"}}
	for name, tc := range map[string]struct {
		status int
		header http.Header
		body   string
		want   string
	}{
		"OpenAI's error":   {400, asJSON, `{"error":{"message":"Bad input.","type":"invalid_request_error","param":"input","code":"bad"}}`, "The provider answered 400 Bad Request (bad): Bad input."},
		"no code":          {404, asJSON, `{"error":{"message":"No such response.","code":null}}`, "The provider answered 404 Not Found: No such response."},
		"a numeric code":   {401, asJSON, `{"error":{"message":"No.","code":401}}`, "The provider answered 401 Unauthorized: No."},
		"only a code":      {500, asJSON, `{"error":{"code":"server_error"}}`, "The provider answered 500 Internal Server Error (server_error)."},
		"a bare string":    {502, asJSON, `{"error":"upstream is gone"}`, "The provider answered 502 Bad Gateway: upstream is gone"},
		"a message":        {503, asJSON, `{"message":"overloaded"}`, "The provider answered 503 Service Unavailable: overloaded"},
		"a problem":        {422, http.Header{"Content-Type": {"application/problem+json"}}, `{"message":"no"}`, "The provider answered 422 Unprocessable Entity: no"},
		"an unknown one":   {529, asJSON, `{"error":{"message":"Overloaded"}}`, "The provider answered 529: Overloaded"},
		"a page":           {502, http.Header{"Content-Type": {"text/html"}}, `<html>nginx at 10.1.2.3</html>`, "The provider answered 502 Bad Gateway."},
		"a page as JSON":   {502, asJSON, `<html>nginx at 10.1.2.3</html>`, "The provider answered 502 Bad Gateway."},
		"nothing":          {500, asJSON, ``, "The provider answered 500 Internal Server Error."},
		"another language": {500, asJSON, `{"error":[1],"message":{"a":1}}`, "The provider answered 500 Internal Server Error."},
		"several lines":    {400, asJSON, `{"error":{"message":"  a\r\nb\u0000c\u001b[31m "}}`, "The provider answered 400 Bad Request: a  b c [31m"},
		"too many words":   {400, asJSON, `{"error":{"message":"` + strings.Repeat("é", 600) + `"}}`, "The provider answered 400 Bad Request: " + strings.Repeat("é", 500)},
		"too long a body":  {400, asJSON, `{"error":{"message":"` + strings.Repeat("x", 70<<10) + `"}}`, "The provider answered 400 Bad Request."},
		"our key":          {401, asJSON, `{"error":{"message":"Incorrect API key ` + key + ` provided","code":"` + key + `"}}`, "The provider answered 401 Unauthorized (***): Incorrect API key *** provided"},
		"its own host":     {500, asJSON, `{"error":{"message":"127.0.0.1 is down"}}`, "The provider answered 500 Internal Server Error: … is down"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t, serve(t, llm.Config{}, refusing(tc.status, tc.header, tc.body)), true).Err
			want(t, agent.FaultOf(err), agent.Fault{Kind: agent.KindProviderFailed, Message: tc.want})
			if strings.Contains(err.Error(), key) {
				t.Errorf("%v shows the key", err)
			}
			var s *llm.StatusError
			if !errors.As(err, &s) || s.Status != tc.status {
				t.Errorf("got %v, want a StatusError of %d", err, tc.status)
			}
		})
	}
}

func TestRefused_KeepsCodeAndParamForPrograms(t *testing.T) {
	err := ask(t, serve(t, llm.Config{}, refusing(400, http.Header{"Content-Type": {"application/json"}},
		`{"error":{"message":"gone","code":"previous_response_not_found","param":"previous_response_id"}}`)), false).Err
	var s *llm.StatusError
	if !errors.As(err, &s) {
		t.Fatalf("got %v, want a StatusError", err)
	}
	want(t, *s, llm.StatusError{Status: 400, Code: "previous_response_not_found", Param: "previous_response_id", Message: "gone"})
	want(t, s.Error(), "status 400, code previous_response_not_found")
	want(t, (&llm.StatusError{Status: 500}).Error(), "status 500")
}

func TestRefused_KeepsHowLongToWait(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header http.Header
		want   time.Duration
	}{
		"seconds":               {429, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"unavailable":           {503, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"fractions":             {429, http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond},
		"milliseconds first":    {429, http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		"a date that is past":   {429, http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}, 0},
		"a date far off":        {429, http.Header{"Retry-After": {"Wed, 21 Oct 2215 07:28:00 GMT"}}, 24 * time.Hour},
		"absent":                {429, nil, 0},
		"zero":                  {429, http.Header{"Retry-After": {"0"}}, 0},
		"negative":              {429, http.Header{"Retry-After": {"-7"}}, 0},
		"no number":             {429, http.Header{"Retry-After": {"NaN"}}, 0},
		"words":                 {429, http.Header{"Retry-After": {"soon"}}, 0},
		"huge":                  {429, http.Header{"Retry-After": {"1e300"}}, 24 * time.Hour},
		"infinite":              {429, http.Header{"Retry-After": {"Inf"}}, 24 * time.Hour},
		"beyond all numbers":    {429, http.Header{"Retry-After": {"1e999"}}, 24 * time.Hour},
		"bad milliseconds":      {429, http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"NaN"}}, 7 * time.Second},
		"overloaded":            {529, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"a fault of other kind": {400, http.Header{"Retry-After": {"7"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t, serve(t, llm.Config{}, refusing(tc.status, tc.header, "")), false).Err
			var e *agent.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *agent.Error", err)
			}
			want(t, e.RetryAfter, tc.want)
		})
	}
}

func TestRefused_InTheMiddleOfItsBody(t *testing.T) {
	err := ask(t, serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		refusing(500, http.Header{"Content-Type": {"application/json"}, "Content-Length": {"999"}}, `{"error":`)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), false).Err
	want(t, agent.FaultOf(err).Message, "The provider answered 500 Internal Server Error.")
}
