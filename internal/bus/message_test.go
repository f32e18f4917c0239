package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aptixhq/aptix/internal/agent"
)

// samplePart has an event of every form.
func samplePart() part {
	p := part{header: headerOf(key), Node: "n", First: 2, From: 5, Answer: true, More: true, Closed: true}
	for n := p.From; n < p.From+10; n++ {
		p.Events = append(p.Events, event{sample(key, n)})
	}
	p.Events = append(p.Events, event{agent.Event{Type: agent.EventTurnWaiting, Sequence: p.end(), SessionID: key.Session, TurnID: key.Turn,
		Response: json.RawMessage("{ \"kept\" :\t\"\\u003c<&>\"}\n")}})
	return p
}

func TestPart_EventsComeOutAsTheyWere(t *testing.T) {
	p := samplePart()
	data, err := encode(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode[part](data)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{-1, 5, 9, 15, 16, 1 << 60} {
		var want []agent.Event
		for _, e := range p.Events {
			if e.Sequence >= from {
				want = append(want, e.Event)
			}
		}
		if diff := cmp.Diff(want, got.above(from), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("above(%d) differs (-want +got):\n%s", from, diff)
		}
	}
	got.Events, p.Events = nil, nil
	if diff := cmp.Diff(p, got, cmp.AllowUnexported(part{})); diff != "" {
		t.Errorf("the part differs (-want +got):\n%s", diff)
	}
	if !bytes.Contains(data, []byte(`["<5> & é`)) {
		t.Errorf("a piece of text is not a plain string: %s", data)
	}
}

func TestDecode_Refuses(t *testing.T) {
	const turn = `"v":1,"session":"s","turn":"t"`
	for name, data := range map[string]string{
		"nothing":             ``,
		"not JSON":            `{`,
		"no turn":             `{"v":1,"session":"s","node":"n","first":1,"from":1}`,
		"no node":             `{` + turn + `,"first":1,"from":1}`,
		"before the log":      `{` + turn + `,"node":"n","first":2,"from":1}`,
		"no sequence":         `{` + turn + `,"node":"n"}`,
		"a huge sequence":     `{` + turn + `,"node":"n","first":1,"from":9223372036854775807}`,
		"a fraction":          `{` + turn + `,"node":"n","first":1,"from":1.5}`,
		"an event null":       `{` + turn + `,"node":"n","first":1,"from":1,"events":[null]}`,
		"an event of no type": `{` + turn + `,"node":"n","first":1,"from":1,"events":[{}]}`,
		"a number for one":    `{` + turn + `,"node":"n","first":1,"from":1,"events":[1]}`,
		"text as an object":   `{` + turn + `,"node":"n","first":1,"from":1,"events":[{"type":"text.delta"}]}`,
		"broken bytes":        `{` + turn + `,"node":"n","first":1,"from":1,"events":[{"type":"x","response":"!"}]}`,
	} {
		if p, err := decode[part]([]byte(data)); err == nil || errors.Is(err, errVersion) {
			t.Errorf("%s: got %+v and %v, want an error of its own", name, p, err)
		}
	}
	for _, data := range []string{`{"v":2}`, `{}`, `{"v":2,"session":["s"]}`, `{"v":-1,"session":"s","turn":"t"}`} {
		for kind, err := range map[string]error{"part": second(decode[part]([]byte(data))), "ask": second(decode[ask]([]byte(data))), "hint": second(decode[header]([]byte(data)))} {
			if !errors.Is(err, errVersion) {
				t.Errorf("%s %s: got %v, want another version", kind, data, err)
			}
		}
	}
	for _, data := range []string{`"first":1`, `"from":1`, `"first":-1,"from":1`, `"first":3,"from":2`, `"first":1,"from":9223372036854775807`} {
		if a, err := decode[ask]([]byte(`{` + turn + `,` + data + `}`)); err == nil {
			t.Errorf("ask %s: got %+v, want an error", data, a)
		}
	}
	// What a later program adds is passed over.
	if _, err := decode[part]([]byte(`{` + turn + `,"node":"n","first":1,"from":1,"later":{},"events":["a",{"type":"x","later":1}]}`)); err != nil {
		t.Error(err)
	}
}

func second[M any](_ M, err error) error { return err }

// Whatever comes in is refused, or is a message that says the same when it is sent on.
func FuzzDecode(f *testing.F) {
	for _, m := range []any{samplePart(), ask{header: headerOf(key), First: 1, From: 2}, headerOf(key)} {
		data, err := encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again[part](t, data)
		again[ask](t, data)
		again[header](t, data)
		p, err := decode[part](data)
		if err != nil {
			return
		}
		for i, e := range p.above(p.From + 1) {
			if e.Sequence != p.From+1+int64(i) || e.SessionID != p.Session || e.TurnID != p.Turn {
				t.Errorf("event %d of %s stands where %d of %s should", e.Sequence, e.TurnID, p.From+1+int64(i), p.Turn)
			}
		}
	})
}

// again sends a message on, and expects the same.
func again[M interface{ check() error }](t *testing.T, data []byte) {
	m, err := decode[M](data)
	if err != nil {
		return
	}
	once, err := encode(m)
	if err != nil {
		t.Fatalf("it was read but cannot be sent: %v", err)
	}
	back, err := decode[M](once)
	if err != nil {
		t.Fatalf("it was sent but cannot be read: %v\n%s", err, once)
	}
	twice, err := encode(back)
	if err != nil || !bytes.Equal(once, twice) {
		t.Errorf("it changes on the way (%v):\n%s\n%s", err, once, twice)
	}
}

func TestSize_IsWhatTheMessageTakes(t *testing.T) {
	p := samplePart()
	empty := p
	empty.Events = []event{}
	whole, _ := encode(p)
	rest, _ := encode(empty)
	sum := len(rest) + len(`,"events":[]`)
	for _, e := range p.Events {
		sum += size(e.Event)
	}
	if sum < len(whole) || sum > len(whole)+len(p.Events) {
		t.Errorf("the sizes make %d, the message has %d bytes", sum, len(whole))
	}
	if n := len(rest); n > room {
		t.Errorf("a part without events has %d bytes, and room is %d", n, room)
	}
}
