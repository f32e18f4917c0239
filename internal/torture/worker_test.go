package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// worker is the client of one session. It sends one turn after the other, follows each
// to its end through every crash, and remembers what it was told.
type worker struct {
	site    site
	client  *http.Client
	session string
	rng     *rand.Rand

	mu    sync.Mutex // guards what follows
	turns []*sent
	wrong []string

	broken []error // of requests that got no answer
}

// site is where a worker sends its requests: to one node, or to any of many.
type site interface{ url(path string) string }

// sent is a turn as its client knows it.
type sent struct {
	id, plan string
	// acknowledged tells that the server answered for it.
	acknowledged bool
	// cancelled tells that the client asked for its end.
	cancelled bool
	// seen are the events that the client has read, by sequence.
	seen map[int64]frame
	// state and response are the outcome that the client was told.
	state    string
	response json.RawMessage
}

type frame struct {
	kind string
	data string
}

func (w *worker) errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, w.session+": "+fmt.Sprintf(format, args...))
}

func (w *worker) breaks(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, err)
}

// work sends turns until stop is closed and then finishes the last one.
func (w *worker) work(ctx context.Context, stop <-chan struct{}) {
	names := []string{"talk", "talk", "write", "write", "twice", "wrong", "switch", "client", "mixed", "ask", "asks"}
	for n := 1; ctx.Err() == nil; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(w.rng.IntN(10)) * time.Millisecond):
		}
		t := &sent{id: fmt.Sprintf("t%d", n), plan: names[w.rng.IntN(len(names))], seen: map[int64]frame{}}
		w.mu.Lock()
		w.turns = append(w.turns, t)
		w.mu.Unlock()
		if w.rng.IntN(10) == 0 {
			// It may fail or not: its client gave no key that would tell.
			_, _, _ = w.call(ctx, http.MethodPut, "/v1/sessions/"+w.session+"/mode", map[string]any{"mode": []string{"general", "other"}[n%2], "reason": "by hand"})
		}
		var hurry *time.Timer
		if w.rng.IntN(12) == 0 {
			t.cancelled = true
			hurry = time.AfterFunc(time.Duration(w.rng.IntN(30))*time.Millisecond, func() {
				_, _, _ = w.call(ctx, http.MethodPost, w.turnPath(t)+"/cancel", nil)
			})
		}
		w.run(ctx, t)
		if hurry != nil {
			hurry.Stop()
		}
		w.compare(ctx, t)
	}
}

func (w *worker) turnPath(t *sent) string { return "/v1/sessions/" + w.session + "/turns/" + t.id }

// run sends the turn until it has ended, whatever happens to the server meanwhile.
func (w *worker) run(ctx context.Context, t *sent) {
	stream := w.rng.IntN(3) > 0
	body := map[string]any{"sessionId": w.session, "turnId": t.id, "instruction": "plan=" + t.plan, "stream": stream}
	var next any = body
	for ctx.Err() == nil {
		kind, answer, ok := w.attempt(ctx, t, next)
		switch {
		case !ok:
			select {
			case <-time.After(time.Duration(1+w.rng.IntN(5)) * time.Millisecond):
			case <-ctx.Done():
			}
		case kind == "client_tool_continuation":
			if next = w.results(t, answer); next == nil {
				w.decide(ctx, t, answer)
				next = body // the same turn, and what has become of it
			}
		default:
			t.state, t.response = kind, answer // "" after a refusal
			return
		}
	}
}

// decide decides on the calls that wait for the user, always alike on the same one. What
// does not get through is asked again with the turn.
func (w *worker) decide(ctx context.Context, t *sent, answer json.RawMessage) {
	var a struct {
		Approvals []struct{ ApprovalID, ToolCallID string }
	}
	if err := json.Unmarshal(answer, &a); err != nil || len(a.Approvals) == 0 {
		w.errorf("turn %s waits for nothing: %s (%v)", t.id, answer, err)
	}
	for _, i := range w.rng.Perm(len(a.Approvals)) {
		decision := []string{"approve", "approve", "deny"}[int(a.Approvals[i].ToolCallID[len(a.Approvals[i].ToolCallID)-1])%3]
		status, text, err := w.call(ctx, http.MethodPost, w.turnPath(t)+"/approvals/"+a.Approvals[i].ApprovalID, map[string]any{"decision": decision})
		if err == nil && status != http.StatusOK && status != http.StatusServiceUnavailable && !t.cancelled {
			w.errorf("turn %s: %s on %s: %d %s", t.id, decision, a.Approvals[i].ApprovalID, status, text)
		}
	}
}

// results are the tool results that the answer asks for; the same answer gets the same.
// They are nil when it asks for none.
func (w *worker) results(t *sent, answer json.RawMessage) any {
	var a struct {
		ToolCalls []struct{ ToolCallID string }
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		w.errorf("turn %s: %v in %s", t.id, err, answer)
	}
	if len(a.ToolCalls) == 0 {
		return nil
	}
	var results []map[string]any
	for _, c := range a.ToolCalls {
		results = append(results, map[string]any{"toolCallId": c.ToolCallID, "executionMs": 1, "resultJson": `{"read":"` + c.ToolCallID + `"}`})
	}
	return map[string]any{"sessionId": w.session, "turnId": t.id, "toolResults": results}
}

// attempt posts a body and reads what comes of it. ok is false when the server was not
// there to the end.
func (w *worker) attempt(ctx context.Context, t *sent, body any) (kind string, answer json.RawMessage, ok bool) {
	res, err := w.post(ctx, "/v1/agent/execute", body)
	if err != nil {
		return "", nil, false
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusServiceUnavailable:
		return "", nil, false
	case res.StatusCode == http.StatusOK:
		t.acknowledged = true
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return w.read(ctx, t, res.Body)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", nil, false
	}
	if res.StatusCode == http.StatusOK {
		var a struct{ Kind string }
		if err := json.Unmarshal(text, &a); err != nil {
			w.errorf("turn %s: %v in %s", t.id, err, text)
		}
		if a.Kind == "final" {
			return "completed", text, true
		}
		return a.Kind, text, true
	}
	var p struct{ Code string }
	_ = json.Unmarshal(text, &p)
	switch p.Code {
	case "turn_cancelled":
		return "cancelled", nil, true
	case "turn_not_waiting": // cancelled meanwhile
		return w.state(ctx, t)
	}
	w.errorf("turn %s (%s): %d %s", t.id, t.plan, res.StatusCode, text)
	return "", nil, true
}

// state asks where the turn stands.
func (w *worker) state(ctx context.Context, t *sent) (string, json.RawMessage, bool) {
	status, text, err := w.call(ctx, http.MethodGet, w.turnPath(t), nil)
	if err != nil || status != http.StatusOK {
		return "", nil, false
	}
	var turn struct{ State string }
	if err := json.Unmarshal(text, &turn); err != nil {
		return "", nil, false
	}
	return turn.State, nil, turn.State == "completed" || turn.State == "failed" || turn.State == "cancelled"
}

// read reads a stream. When it is cut, the client sends the same request again or goes
// on after the last event, as it likes.
func (w *worker) read(ctx context.Context, t *sent, body io.Reader) (string, json.RawMessage, bool) {
	resends := w.rng.IntN(3) == 0
	kind, answer, ok := w.frames(t, body)
	for !ok && !resends && ctx.Err() == nil {
		time.Sleep(time.Duration(1+w.rng.IntN(5)) * time.Millisecond)
		last := int64(0)
		for n := range t.seen {
			last = max(last, n)
		}
		status, text, err := w.call(ctx, http.MethodGet, w.turnPath(t)+"/events?after="+strconv.FormatInt(last, 10), nil)
		switch {
		case status == http.StatusNotFound:
			w.errorf("turn %s: the server has forgotten a turn that it acknowledged", t.id)
			return "", nil, false
		case status != http.StatusOK && err == nil: // 204: at rest, and everything was read
			return "", nil, false
		}
		kind, answer, ok = w.frames(t, bytes.NewReader(text)) // what came before the cut
	}
	return kind, answer, ok
}

// frames takes in the events of a body up to the one that ends a delivery.
func (w *worker) frames(t *sent, body io.Reader) (kind string, answer json.RawMessage, ended bool) {
	for n, f := range parse(body) {
		if from, void := replaced(f); void {
			for seen := range t.seen {
				if seen >= from {
					delete(t.seen, seen)
				}
			}
		}
		if old, ok := t.seen[n]; ok && old != f {
			w.errorf("turn %s: event %d was %v and is now %v", t.id, n, old, f)
		}
		t.seen[n] = f
		var e struct{ Response json.RawMessage }
		switch f.kind {
		case "turn.completed", "turn.waiting":
			if err := json.Unmarshal([]byte(f.data), &e); err != nil {
				w.errorf("turn %s: %v", t.id, err)
			}
		}
		switch f.kind {
		case "turn.waiting":
			kind, answer, ended = "client_tool_continuation", e.Response, true
		case "turn.completed":
			return "completed", e.Response, true
		case "turn.failed":
			w.errorf("turn %s (%s) failed: %s", t.id, t.plan, f.data)
			return "failed", nil, true
		case "turn.cancelled":
			if !t.cancelled {
				w.errorf("turn %s was cancelled, but not by its client", t.id)
			}
			return "cancelled", nil, true
		}
	}
	return kind, answer, ended
}

// replaced returns the sequence from which on what was shown before an event is void.
func replaced(f frame) (from int64, void bool) {
	if f.kind != "turn.resumed" {
		return 0, false
	}
	var e struct{ ReplaceFrom int64 }
	err := json.Unmarshal([]byte(f.data), &e)
	return e.ReplaceFrom, err == nil
}

// parse yields the whole events of a stream.
func parse(body io.Reader) func(func(int64, frame) bool) {
	return func(yield func(int64, frame) bool) {
		r := bufio.NewReader(body)
		var n int64
		var f frame
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "event: "):
				f.kind = line[len("event: "):]
			case strings.HasPrefix(line, "id: "):
				n, _ = strconv.ParseInt(line[len("id: "):], 10, 64)
			case strings.HasPrefix(line, "data: "):
				f.data = line[len("data: "):]
			case line == "" && f.kind != "":
				if !yield(n, f) {
					return
				}
				f = frame{}
			}
		}
	}
}

// compare holds what the client saw of the turn to what the server has of it now.
func (w *worker) compare(ctx context.Context, t *sent) {
	for ctx.Err() == nil {
		status, text, err := w.call(ctx, http.MethodGet, w.turnPath(t)+"/events", nil)
		if err != nil || status == http.StatusServiceUnavailable {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		whole, next, ended := map[int64]frame{}, int64(1), false
		for n, f := range parse(bytes.NewReader(text)) {
			if from, void := replaced(f); void && from == n {
				// Its node has died under this reader: the text from here on is void.
				for ; next > n; next-- {
					delete(whole, next-1)
				}
			}
			if n != next {
				w.errorf("turn %s: event %d comes where %d should", t.id, n, next)
			}
			next++
			whole[n] = f
			ended = f.kind == "turn.completed" || f.kind == "turn.failed" || f.kind == "turn.cancelled"
		}
		if !ended {
			continue // cut by the next crash
		}
		for n, f := range t.seen {
			if whole[n] != f {
				w.errorf("turn %s: the client saw event %d as %v, the journal has %v", t.id, n, f, whole[n])
			}
		}
		t.seen = nil
		return
	}
}

func (w *worker) post(ctx context.Context, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.site.url(path), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := w.client.Do(req)
	if err != nil {
		w.breaks(err)
	}
	return res, err
}

func (w *worker) call(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var data io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		data = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.site.url(path), data)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.breaks(err)
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}
