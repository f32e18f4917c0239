// Package drive sends turns to a server and says how long they took: in a closed loop,
// in one long session, or as many streams at once. It stands where the clients are.
// What it costs itself is measured beside the server, so it reads streams without
// decoding them, whichever server they come from.
//
// Every answer is checked: a turn counts only when its whole text came, in events
// without a gap, with the one that says that the turn is over.
package drive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/bench/sse"
)

// turnTime bounds one turn beyond the time that the model takes for it.
const turnTime = 30 * time.Second

// Config says what is measured.
type Config struct {
	URL      string
	Protocol Protocol
	// AnswerBytes is the length of each turn's text.
	AnswerBytes int
	// Tool is written before what the user says; see mock.ToolMark.
	Tool string
}

// Driver sends turns to one server.
type Driver struct {
	cfg  Config
	http *http.Client
}

// New returns a driver. Close it.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16384, DisableCompression: true}}}
}

// Close closes the connections.
func (d *Driver) Close() { d.http.CloseIdleConnections() }

// delta tells of a piece of text: what of the answer has come so far, and when.
type delta func(answer []byte, at time.Time)

// turn runs a turn to the end of its stream and returns how long that took.
func (d *Driver) turn(ctx context.Context, s *session, text string, each delta) (time.Duration, error) {
	if d.cfg.Tool != "" {
		text = d.cfg.Tool + "\n" + text
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.cfg.URL+d.cfg.Protocol.path, bytes.NewReader(d.cfg.Protocol.body(s, text)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	start := time.Now()
	res, err := d.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return 0, fmt.Errorf("%s: %s", res.Status, body)
	}
	answer, err := d.read(res.Body, each)
	took := time.Since(start)
	if err != nil {
		return took, err
	}
	s.remember(text, answer)
	return took, nil
}

// read reads a stream to its end and returns its text.
func (d *Driver) read(r io.Reader, each delta) (answer []byte, err error) {
	answer = make([]byte, 0, d.cfg.AnswerBytes)
	sequence, done := 0, false
	var last []byte
	for events := sse.NewReader(r); ; {
		e, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return answer, err
		}
		sequence++
		if n, err := strconv.Atoi(string(e.ID)); len(e.ID) > 0 && (err != nil || n != sequence) {
			return answer, fmt.Errorf("event %d has the id %s: events were lost", sequence, e.ID)
		}
		if text := d.cfg.Protocol.text(e); text != nil {
			answer = append(answer, text...)
			if each != nil {
				each(answer, time.Now())
			}
			continue
		}
		last = append(append(append(last[:0], e.Name...), ' '), e.Data...)
		done = done || string(e.Name) == d.cfg.Protocol.done
	}
	switch {
	case !done:
		return answer, fmt.Errorf("the stream ends without %s; its last event is %.300s", d.cfg.Protocol.done, last)
	case len(answer) != d.cfg.AnswerBytes:
		return answer, fmt.Errorf("the answer has %d bytes, want %d", len(answer), d.cfg.AnswerBytes)
	}
	return answer, nil
}

// question returns what the user says in turn n.
func question(n int) string {
	return fmt.Sprintf("Question number %d: please tell me something about the weather.", n)
}

// Quantile returns the value below which the share q of the durations lies, 0 of none.
func Quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
