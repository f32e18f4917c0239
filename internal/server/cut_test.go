package server

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

var cutStride = flag.Int("cut.stride", 101, "after how many bytes more a stream is cut next; 1 is after every byte")

// cutShort posts a turn and reads so many bytes of its stream before it hangs up. n < 0
// reads to the end.
func cutShort(t *testing.T, url, body string, n int) string {
	t.Helper()
	res, err := http.Post(url+"/v1/agent/execute", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if n < 0 {
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(res.Body, text); err != nil {
		t.Fatalf("the stream ends before byte %d: %v", n, err)
	}
	return string(text)
}

// assembled is what a client makes of a stream that was cut: the whole events of it, and
// what the server sends after the last of them.
func assembled(t *testing.T, url, events, got string, byHeader bool) string {
	t.Helper()
	whole := got[:strings.LastIndex("\n\n"+got, "\n\n")] // 0, or up to and with the last blank line
	last := "0"
	if i := strings.LastIndex(whole, "\nid: "); i >= 0 {
		last, _, _ = strings.Cut(whole[i+len("\nid: "):], "\n")
	}
	target := url + events
	if !byHeader {
		target += "?after=" + last
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if byHeader {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	rest, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent {
		t.Fatalf("resume after %s: %d %s (%v)", last, res.StatusCode, rest, err)
	}
	return whole + string(rest)
}

// A client that is cut off after any byte of a stream, and resumes, has the stream that
// nobody cut.
func TestStream_CutAfterEveryByte(t *testing.T) {
	w := newWhole(t)
	web := httptest.NewServer(w.Server)
	defer web.Close()
	defer http.DefaultClient.CloseIdleConnections()
	const ask = `{"sessionId":"%s","turnId":"t0","stream":true,"instruction":"call agent_list_modes {}"}`

	body := fmt.Sprintf(ask, "s1")
	uncut := cutShort(t, web.URL, body, -1)
	if n := strings.Count(uncut, "\n\n"); n < 5 || !strings.Contains(uncut, "event: turn.completed\n") {
		t.Fatalf("a stream of %d events:\n%s", n, uncut)
	}
	t.Run("of a turn that is over", func(t *testing.T) {
		for n := 0; n < len(uncut); n += *cutStride {
			got := cutShort(t, web.URL, body, n)
			if got != uncut[:n] {
				t.Fatalf("the same turn again begins with %q", got)
			}
			if got := assembled(t, web.URL, "/v1/sessions/s1/turns/t0/events", got, n%2 == 0); got != uncut {
				t.Fatalf("cut after %d bytes, assembled to\n%s\nwant\n%s", n, got, uncut)
			}
		}
	})
	t.Run("of a turn that runs", func(t *testing.T) {
		// The times of its tool, and so its length, vary a little. Each has a session of its
		// own: in one, every turn would bring all before it along.
		for n := 0; n < len(uncut)*9/10; n += max(*cutStride, len(uncut)/100) {
			id := "r" + strconv.Itoa(n)
			got := cutShort(t, web.URL, fmt.Sprintf(ask, id), n)
			events := "/v1/sessions/" + id + "/turns/t0/events"
			got = assembled(t, web.URL, events, got, n%2 == 0)
			whole, err := http.Get(web.URL + events)
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(whole.Body)
			_ = whole.Body.Close()
			if err != nil || !bytes.Contains(want, []byte("event: turn.completed\n")) {
				t.Fatalf("the turn's events: %s (%v)", want, err)
			}
			if got != string(want) {
				t.Fatalf("cut after %d bytes, assembled to\n%s\nwant\n%s", n, got, want)
			}
		}
	})
}
