package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/aptixhq/aptix/internal/agent"
)

// version is that of the messages below. A change that older nodes would misread gets
// another one: they ignore it.
const version = 1

// The bounds of a message. A part is cut at partBytes, which keeps a long Log from
// filling the connection; an event alone may have maxEvent, half of what NATS takes as it
// comes. room is what the rest of a message needs.
const (
	partBytes = 64 << 10
	maxEvent  = 512 << 10
	room      = 4 << 10
)

// errVersion says that a message is of a version that this program does not know.
var errVersion = errors.New("another version")

// header begins every message. Alone it is the hint that a turn has moved.
type header struct {
	Version int             `json:"v"`
	Org     agent.OrgID     `json:"org"`
	Session agent.SessionID `json:"session"`
	Turn    agent.TurnID    `json:"turn"`
}

func headerOf(k agent.TurnKey) header {
	return header{Version: version, Org: k.Org, Session: k.Session, Turn: k.Turn}
}

func (h header) key() agent.TurnKey {
	return agent.TurnKey{Org: h.Org, Session: h.Session, Turn: h.Turn}
}

func (h header) check() error {
	switch {
	case h.Version != version:
		return errVersion
	case h.Session == "" || h.Turn == "":
		return errors.New("a message names no turn")
	}
	return nil
}

// ask wants events of a Log, and those that are appended to it for some time from now
// on. To all nodes it goes without First, and says where the reader stands; to the node
// that has answered it names the Log and the event that is missing.
type ask struct {
	header
	After int64 `json:"after,omitempty"`
	First int64 `json:"first,omitempty"`
	From  int64 `json:"from,omitempty"`
}

func (a ask) check() error {
	if err := a.header.check(); err != nil {
		return err
	}
	if a.First < 0 || a.From < a.First || a.From > math.MaxInt64/2 || (a.First == 0) != (a.From == 0) {
		return fmt.Errorf("an ask wants event %d of a log that begins at %d", a.From, a.First)
	}
	return nil
}

// part is a piece of a Log. Node and First say which Log it is: a turn has one owner
// after the other, and each begins its Log behind what the one before it has journalled.
type part struct {
	header
	Node   string  `json:"node"`
	First  int64   `json:"first"`
	From   int64   `json:"from"` // the sequence of Events[0]
	Events []event `json:"events,omitempty"`
	// Answer tells that it was asked for, More that it was cut and the rest must be, too.
	Answer bool `json:"answer,omitempty"`
	More   bool `json:"more,omitempty"`
	// Closed tells that nothing comes behind these events, for whatever reason.
	Closed bool `json:"closed,omitempty"`

	bytes int // what Events take
}

func (p part) check() error {
	if err := p.header.check(); err != nil {
		return err
	}
	if p.Node == "" || p.First < 1 || p.From < p.First || p.From > math.MaxInt64/2 {
		return fmt.Errorf("a part begins at event %d of the log of node %q that begins at %d", p.From, p.Node, p.First)
	}
	return nil
}

// end is the sequence behind the part's last event.
func (p part) end() int64 { return p.From + int64(len(p.Events)) }

// fill adds events that follow on, as many as go into a message. It marks the part when
// there are more, and when the next one is larger than an event may be: the part is then
// the Log's last.
func (p *part) fill(events []agent.Event, largest int) (rest []agent.Event) {
	for i, e := range events {
		n := size(e)
		if n > largest {
			p.Closed = true
			return nil
		}
		if p.bytes+n > partBytes && len(p.Events) > 0 {
			p.More = true
			return events[i:]
		}
		p.bytes += n
		p.Events = append(p.Events, event{e})
	}
	return nil
}

// above returns the events from a sequence on, with the names that the wire leaves out.
func (p part) above(from int64) []agent.Event {
	skip := min(max(from-p.From, 0), int64(len(p.Events)))
	out := make([]agent.Event, 0, int64(len(p.Events))-skip)
	for i, e := range p.Events[skip:] {
		e.Sequence = p.From + skip + int64(i)
		e.SessionID, e.TurnID = p.Session, p.Turn
		out = append(out, e.Event)
	}
	return out
}

// event is an event in a part: a piece of text as a string, which most are, and another
// one as an object. Its place in the part says its sequence, the part's key its names.
type event struct{ agent.Event }

// size is what an event takes in a message. One that cannot be encoded takes too much.
func size(e agent.Event) int {
	data, err := encode(event{e})
	if err != nil {
		return maxEvent + 1
	}
	return len(data) + len(",")
}

// others is the form of an event that is not a piece of text.
type others struct {
	agent.Event
	// Bytes keep theirs here; as JSON they would be written anew.
	Response []byte       `json:"response,omitempty"`
	Fault    *agent.Fault `json:"fault,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e event) MarshalJSON() ([]byte, error) {
	if e.Type == agent.EventTextDelta {
		return encode(e.Text)
	}
	o := others{Event: e.Event, Response: e.Response, Fault: e.Fault}
	o.Sequence, o.SessionID, o.TurnID = 0, "", ""
	return encode(o)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *event) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		e.Type = agent.EventTextDelta
		return json.Unmarshal(data, &e.Text)
	}
	var o others
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	if o.Type == "" || o.Type == agent.EventTextDelta {
		return fmt.Errorf("an event is of type %q", o.Type)
	}
	e.Event = o.Event
	e.Response, e.Fault = o.Response, o.Fault
	return nil
}

// encode renders a message, with nothing escaped that need not be.
func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// decode reads a message. The error is errVersion when it is of a version that is not
// known, however it is built.
func decode[M interface{ check() error }](data []byte) (M, error) {
	var m M
	if err := json.Unmarshal(data, &m); err != nil {
		var v struct {
			Version int `json:"v"`
		}
		if json.Unmarshal(data, &v) == nil && v.Version != version {
			return m, errVersion
		}
		return m, err
	}
	return m, m.check()
}
