package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
)

// noon is when everything in these tests happened.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.FixedZone("CET", 3600))

// fakeTurns is a pipeline in which every turn has happened already, as scripted.
type fakeTurns struct {
	open     atomic.Int64  // readers that are read from
	sessions *fakeSessions // what Erase takes away
	mu       sync.Mutex    // guards everything below
	// script is what becomes of a turn that is submitted or continued.
	script struct {
		turn   agent.Turn
		events []agent.Event
		err    error // of Submit, Continue and Preview
	}
	turns     map[agent.TurnKey]agent.Turn
	events    map[agent.TurnKey][]agent.Event
	calls     map[agent.TurnKey][]pipeline.ModelCall
	submitted []contract.UserTurn
	continued []contract.ToolContinuation
	previewed []contract.UserTurn
	callers   []agent.Caller
	// follow takes the place of the scripted events when it is set, await that of
	// the scripted turn.
	follow func(ctx context.Context, key agent.TurnKey, after int64) iter.Seq2[agent.Event, error]
	await  func(ctx context.Context) (agent.Turn, error)
	// unreadable is why no events can be read.
	unreadable error
}

func (f *fakeTurns) happen(by agent.Caller, session agent.SessionID, turn agent.TurnID) agent.TurnKey {
	key := agent.TurnKey{Org: by.Org, Session: session, Turn: turn}
	t := f.script.turn
	t.Key = key
	f.put(t, f.script.events...)
	f.callers = append(f.callers, by)
	return key
}

func (f *fakeTurns) put(t agent.Turn, events ...agent.Event) {
	if f.turns == nil {
		f.turns, f.events = map[agent.TurnKey]agent.Turn{}, map[agent.TurnKey][]agent.Event{}
	}
	for i := range events {
		events[i].Sequence, events[i].SessionID, events[i].TurnID = int64(i+1), t.Key.Session, t.Key.Turn
	}
	f.turns[t.Key], f.events[t.Key] = t, events
}

func (f *fakeTurns) Submit(_ context.Context, by agent.Caller, u contract.UserTurn) (agent.TurnKey, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.script.err != nil {
		return agent.TurnKey{}, 0, f.script.err
	}
	f.submitted = append(f.submitted, u)
	return f.happen(by, u.SessionID, u.TurnID), 0, nil
}

func (f *fakeTurns) Continue(_ context.Context, by agent.Caller, c contract.ToolContinuation) (agent.TurnKey, int64, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.script.err != nil {
		return agent.TurnKey{}, 0, false, f.script.err
	}
	f.continued = append(f.continued, c)
	stream := f.script.turn.Stream
	return f.happen(by, c.SessionID, c.TurnID), 1, stream != nil && *stream, nil
}

func (f *fakeTurns) Await(ctx context.Context, key agent.TurnKey) (agent.Turn, error) {
	if f.await != nil {
		return f.await(ctx)
	}
	return f.Turn(ctx, key)
}

// Reader notes whether what was read from is closed.
func (f *fakeTurns) Reader(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return &noted{Reader: f.reader(key, after), open: &f.open}
}

// noted counts with those that are open from its first Next to its Close.
type noted struct {
	events.Reader[agent.Event]
	open *atomic.Int64
	read bool
}

func (n *noted) Next(ctx context.Context) ([]agent.Event, <-chan struct{}, error) {
	if !n.read {
		n.read = true
		n.open.Add(1)
	}
	return n.Reader.Next(ctx)
}

func (n *noted) Close() {
	if n.read {
		n.read = false
		n.open.Add(-1)
	}
	n.Reader.Close()
}

func (f *fakeTurns) reader(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	if f.follow != nil {
		return &ranged{follow: func(ctx context.Context) iter.Seq2[agent.Event, error] { return f.follow(ctx, key, after) }}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all, ok := f.events[key]
	switch {
	case f.unreadable != nil:
		return &listed[agent.Event]{err: f.unreadable}
	case !ok:
		return &listed[agent.Event]{err: agent.Errorf(agent.KindNotFound, "There is no such turn.")}
	}
	return &listed[agent.Event]{left: all[min(after, int64(len(all))):]}
}

// listed reads events that are all there, or a fault.
type listed[E any] struct {
	left []E
	err  error
}

func (l *listed[E]) Next(context.Context) (ready []E, _ <-chan struct{}, err error) {
	if l.err != nil {
		return nil, nil, l.err
	}
	if len(l.left) == 0 {
		return nil, nil, io.EOF
	}
	ready, l.left = l.left, nil
	return ready, nil, nil
}

func (l *listed[E]) Close() {}

// ranged reads what a sequence yields, up to one event ahead.
type ranged struct {
	follow func(context.Context) iter.Seq2[agent.Event, error]

	yielded chan any // events and errors; nil before the first Next
	next    any      // set before again is closed; nil at the end
	again   chan struct{}
}

func (r *ranged) Close() {}

func (r *ranged) Next(ctx context.Context) ([]agent.Event, <-chan struct{}, error) {
	if r.yielded == nil {
		r.yielded = make(chan any)
		go r.run(ctx)
	}
	if r.again == nil {
		again := make(chan struct{})
		r.again = again
		go func() {
			defer close(again)
			r.next = <-r.yielded
		}()
	}
	select {
	case <-r.again:
	default:
		return nil, r.again, nil
	}
	r.again = nil
	switch next := r.next.(type) {
	case agent.Event:
		return []agent.Event{next}, nil, nil
	case error:
		return nil, nil, next
	case nil:
		return nil, nil, io.EOF
	default: // a panic of the sequence is one of ours
		panic(next)
	}
}

func (r *ranged) run(ctx context.Context) {
	defer close(r.yielded)
	put := func(v any) bool {
		select {
		case r.yielded <- v:
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if v := recover(); v != nil {
			put(v)
		}
	}()
	for e, err := range r.follow(ctx) {
		if err != nil {
			put(err)
			return
		}
		if !put(e) {
			return
		}
	}
}

func (f *fakeTurns) Approvals(ctx context.Context, key agent.TurnKey) ([]agent.Approval, error) {
	_, err := f.Turn(ctx, key)
	return nil, err
}

func (f *fakeTurns) Decide(ctx context.Context, _ agent.Caller, key agent.TurnKey, id agent.ApprovalID, v agent.Verdict) (pipeline.Approval, error) {
	if _, err := f.Turn(ctx, key); err != nil {
		return pipeline.Approval{}, err
	}
	return pipeline.Approval{}, agent.Errorf(agent.KindNotFound, "There is no such approval.")
}

func (f *fakeTurns) Cancel(ctx context.Context, key agent.TurnKey) error {
	t, err := f.Turn(ctx, key)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.State = agent.TurnCancelled
	f.turns[key] = t
	return nil
}

func (f *fakeTurns) Preview(_ context.Context, _ agent.Caller, u contract.UserTurn) (pipeline.Preview, error) {
	if f.script.err != nil {
		return pipeline.Preview{}, f.script.err
	}
	f.previewed = append(f.previewed, u)
	return pipeline.Preview{
		Canonical: `{"model":"m"}`, CanonicalSHA256: strings.Repeat("a", 64),
		Wire: `{"input":"<b>"}`, WireSHA256: strings.Repeat("b", 64),
		Mode: agent.ModeGeneral, Tools: json.RawMessage(`[{"type":"function","name":"agent_change_mode"}]`),
	}, nil
}

func (f *fakeTurns) Requests(ctx context.Context, key agent.TurnKey) ([]pipeline.ModelCall, error) {
	if _, err := f.Turn(ctx, key); err != nil {
		return nil, err
	}
	return f.calls[key], nil
}

func (f *fakeTurns) Turn(_ context.Context, key agent.TurnKey) (agent.Turn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.turns[key]
	if !ok {
		return agent.Turn{}, agent.Errorf(agent.KindNotFound, "There is no such turn.")
	}
	return t, nil
}

func (f *fakeTurns) Turns(_ context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.Turn, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []agent.Turn
	for k, t := range f.turns {
		if k.Org == by.Org && k.Session == id {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, "", agent.Errorf(agent.KindNotFound, "There is no such session.")
	}
	slices.SortFunc(out, func(a, b agent.Turn) int { return int(a.Ordinal - b.Ordinal) })
	return cut("turns", out, p, func(t agent.Turn) string { return string(t.Key.Turn) })
}

// fakeSessions keeps sessions in memory.
type fakeSessions struct {
	mu      sync.Mutex // guards everything below
	all     []agent.Session
	history map[agent.SessionID][]agent.ModeChange
	err     error
}

func (f *fakeSessions) find(by agent.OrgID, id agent.SessionID) (*agent.Session, error) {
	if f.err != nil {
		return nil, f.err
	}
	for i := range f.all {
		if f.all[i].ID == id && f.all[i].Org == by {
			return &f.all[i], nil
		}
	}
	return nil, agent.Errorf(agent.KindNotFound, "There is no such session.")
}

func (f *fakeSessions) Create(_ context.Context, by agent.Caller, c contract.CreateSession) (agent.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.SessionID == "" {
		c.SessionID = "made_up"
	}
	if c.Mode == "" {
		c.Mode = agent.ModeGeneral
	}
	if c.Mode == "no_such" {
		return agent.Session{}, agent.Errorf(agent.KindUnknownMode, "There is no mode %q. Valid modes: general.", c.Mode)
	}
	if c.AgentContextID == "no_such" {
		return agent.Session{}, agent.Errorf(agent.KindUnknownContext, "There is no agent context %q. Valid ones: default.", c.AgentContextID)
	}
	if _, err := f.find(by.Org, c.SessionID); err == nil {
		return agent.Session{}, agent.Errorf(agent.KindSessionExists, "A session %q exists already.", c.SessionID)
	}
	s := agent.Session{
		Org: by.Org, ID: c.SessionID, CreatedBy: by.User, Mode: c.Mode, Version: 1, SystemPrompt: c.SystemPrompt, ClientTools: c.Tools,
		AgentContext: "default", ConversationContext: "default", Concurrency: agent.ConcurrencyReject,
		LastResponseID: "resp_secret", CreatedAt: noon, UpdatedAt: noon,
	}
	f.all = append(f.all, s)
	return s, nil
}

func (f *fakeSessions) Get(_ context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.find(by.Org, id)
	if err != nil {
		return agent.Session{}, err
	}
	return *s, nil
}

func (f *fakeSessions) List(_ context.Context, by agent.Caller, p store.Page) ([]agent.Session, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var mine []agent.Session
	for _, s := range slices.Backward(f.all) {
		if s.Org == by.Org {
			mine = append(mine, s)
		}
	}
	return cut("sessions", mine, p, func(s agent.Session) string { return string(s.ID) })
}

func (f *fakeTurns) Erase(_ context.Context, by agent.Caller, id agent.SessionID) error {
	return f.sessions.erase(by, id)
}

func (f *fakeSessions) erase(by agent.Caller, id agent.SessionID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(by.Org, id); err != nil {
		return err
	}
	f.all = slices.DeleteFunc(f.all, func(s agent.Session) bool { return s.ID == id && s.Org == by.Org })
	return nil
}

func (f *fakeSessions) Branch(ctx context.Context, by agent.Caller, id agent.SessionID, b contract.BranchSession) (agent.Session, error) {
	parent, err := f.Get(ctx, by, id)
	if err != nil {
		return agent.Session{}, err
	}
	s, err := f.Create(ctx, by, contract.CreateSession{SessionID: b.SessionID, Mode: b.Mode})
	s.Parent = agent.Lineage{Session: parent.ID}
	return s, err
}

func (f *fakeSessions) SetTools(_ context.Context, by agent.Caller, id agent.SessionID, tools json.RawMessage) (agent.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.find(by.Org, id)
	if err != nil {
		return agent.Session{}, err
	}
	s.ClientTools = tools
	return *s, nil
}

func (f *fakeSessions) ModeHistory(_ context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(by.Org, id); err != nil {
		return nil, "", err
	}
	return cut("history", f.history[id], p, func(c agent.ModeChange) string { return string(c.Mode) })
}

func (f *fakeSessions) SetSessionMode(_ context.Context, c agent.ModeChange) (agent.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Mode == "no_such" {
		return agent.Session{}, agent.Errorf(agent.KindUnknownMode, "There is no mode %q. Valid modes: general.", c.Mode)
	}
	s, err := f.find(c.Org, c.Session)
	if err != nil {
		return agent.Session{}, err
	}
	if f.history == nil {
		f.history = map[agent.SessionID][]agent.ModeChange{}
	}
	c.Previous, c.At = s.Mode, noon
	f.history[c.Session] = append(f.history[c.Session], c)
	s.Mode = c.Mode
	s.Version++
	return *s, nil
}

// rig is a server over fakes, and its log.
type rig struct {
	*Server
	turns    *fakeTurns
	sessions *fakeSessions
	log      *bytes.Buffer
}

func newRig(t *testing.T, with ...func(*Config)) *rig {
	t.Helper()
	sessions := &fakeSessions{}
	r := &rig{turns: &fakeTurns{sessions: sessions}, sessions: sessions, log: &bytes.Buffer{}}
	c := Config{
		Turns: r.turns, Sessions: r.sessions, Responses: fakeResponses{}, Audit: fakeDoors{}, Erasures: fakeDoors{}, Webhooks: fakeWebhooks{}, Keys: fakeKeys{}, Catalog: mode.Builtin(), Registry: registry(t),
		Log:       slog.New(telemetry.Logs(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		Telemetry: telemetry.New(telemetry.Config{}),
	}
	for _, f := range with {
		f(&c)
	}
	var err error
	if r.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(10 * time.Second); r.turns.open.Load() != 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // a handler may be about to return
		}
		if n := r.turns.open.Load(); n != 0 {
			t.Errorf("%d streams are over, and their readers are not closed", n)
		}
	})
	return r
}

// noTool is a server tool that does nothing.
type noTool string

func (n noTool) Definition() tool.Definition {
	return tool.Definition{
		Name: string(n), Description: "Does nothing.", Usage: "Never call it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}
}

func (noTool) Execute(context.Context, *tool.ExecutionContext, string) (string, error) {
	return "", nil
}

func registry(t *testing.T) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry(noTool("first_tool"), noTool("second_tool"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answer is what a request got.
type answer struct {
	*httptest.ResponseRecorder
	aborted bool // the connection was cut in the middle
}

// do sends a request from this machine. A body is sent as JSON; header pairs follow.
func (r *rig) do(t *testing.T, method, target, body string, header ...string) answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Host = "localhost:8080"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return r.serve(t, req)
}

func (r *rig) serve(t *testing.T, req *http.Request) (a answer) {
	t.Helper()
	a.ResponseRecorder = httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v == http.ErrAbortHandler {
				a.aborted = true
			} else if v != nil {
				panic(v)
			}
		}()
		r.ServeHTTP(a, req)
	}()
	if !a.aborted && req.Method != http.MethodHead {
		conform(t, req.Method, req.URL.Path, a.ResponseRecorder)
	}
	return a
}

// openAIFault reads the answer as an error in OpenAI's form, nil when it is none.
func (a answer) openAIFault() *OpenAIFault {
	var e struct{ Error *OpenAIFault }
	if a.Header().Get("Content-Type") != "application/json" || json.Unmarshal(a.Body.Bytes(), &e) != nil {
		return nil
	}
	return e.Error
}

// problem reads the answer as a problem and checks what all of them have in common.
func (a answer) problem(t *testing.T) Problem {
	t.Helper()
	hidesInsides(t, a.Body.String())
	if fault := a.openAIFault(); fault != nil {
		return Problem{Status: a.Code, Detail: fault.Message, Code: agent.Kind(fault.Code)}
	}
	if got := a.Header().Get("Content-Type"); got != problemType {
		t.Fatalf("Content-Type %q of a %d answer, want %q; body %s", got, a.Code, problemType, a.Body)
	}
	p := decode[Problem](t, a)
	if p.Status != a.Code {
		t.Errorf("problem says status %d, the answer %d", p.Status, a.Code)
	}
	if want := a.Header().Get("X-Request-Id"); p.RequestID != want || want == "" {
		t.Errorf("problem has request id %q, the header %q", p.RequestID, want)
	}
	if p.Detail == "" || p.Title == "" || p.Type != "urn:aptix:problem:"+string(p.Code) {
		t.Errorf("problem is not whole: %+v", p)
	}
	return p
}

// want fails unless the answer is a problem of this kind.
func (a answer) want(t *testing.T, kind agent.Kind) Problem {
	t.Helper()
	p := a.problem(t)
	if p.Code != kind || a.Code != meanings[kind].status {
		t.Fatalf("got %d %s, want %d %s; detail %q", a.Code, p.Code, meanings[kind].status, kind, p.Detail)
	}
	return p
}

// wantStatus fails unless the answer has this status.
func (a answer) wantStatus(t *testing.T, status int) {
	t.Helper()
	if a.Code != status {
		t.Fatalf("got %d, want %d; body %s", a.Code, status, a.Body)
	}
}

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		t.Fatalf("answer is not JSON: %v; body %s", err, a.Body)
	}
	return v
}

const final = `{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":"Hello <you> & yours"}`

const clientTools = `{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General",` +
	`"toolCalls":[{"toolCallId":"call_1","name":"read_file","argumentsJson":"{}"}]}`

const hello = `{"sessionId":"s1","turnId":"t1","instruction":"hello"}`

// completed scripts a turn that answers at once.
func (f *fakeTurns) completed() {
	f.script.turn = agent.Turn{State: agent.TurnCompleted, Mode: agent.ModeGeneral, Ordinal: 1, Response: json.RawMessage(final), CreatedAt: noon, UpdatedAt: noon}
	f.script.events = []agent.Event{
		{Type: agent.EventTurnStarted},
		{Type: agent.EventModelRequest, Call: 1, CanonicalSHA256: strings.Repeat("a", 64), WireSHA256: strings.Repeat("b", 64)},
		{Type: agent.EventTextDelta, Text: "Hello <you>\r\n & yours"},
		{Type: agent.EventTurnCompleted, Response: json.RawMessage(final)},
	}
}

// failed scripts a turn that fails.
func (f *fakeTurns) failed(fault agent.Fault) {
	f.script.turn = agent.Turn{State: agent.TurnFailed, Mode: agent.ModeGeneral, Ordinal: 1, Fault: &fault, CreatedAt: noon, UpdatedAt: noon}
	f.script.events = []agent.Event{{Type: agent.EventTurnStarted}, {Type: agent.EventTurnFailed, Fault: &fault}}
}

// The fakes stand for these.
var (
	_ Turns    = (*pipeline.Pipeline)(nil)
	_ Sessions = (*session.Manager)(nil)
)
