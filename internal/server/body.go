package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// readBody reads a JSON request body whole, at most limit bytes and one more to know
// that there are too many. A request without any body gives none; whether that will
// do is the decoder's to say.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return nil, nil
	}
	if err := jsonMedia(r.Header); err != nil {
		return nil, err
	}
	limit := s.limits.Body
	if r.ContentLength > limit {
		return nil, s.tooLarge(w)
	}
	if err := s.bodies.fits(r); err != nil {
		hangUp(w)
		return nil, err
	}
	rc := http.NewResponseController(w)
	paced := &pacedReader{rc: rc, r: r.Body, start: time.Now(), idle: s.bodyIdle, total: s.bodyTimeout}
	most := limit + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1 // to find the end
	}
	body, err := s.readAll(exchangeOf(r), paced, most)
	switch {
	case agent.KindOf(err) == agent.KindRateLimited:
		hangUp(w)
		return nil, err
	case int64(len(body)) > limit:
		return nil, s.tooLarge(w)
	case errors.Is(err, os.ErrDeadlineExceeded):
		hangUp(w)
		return nil, agent.Errorf(agent.KindInvalidRequest, "The request body did not arrive in time. Send it again.").Because(err)
	case err != nil:
		hangUp(w)
		return nil, agent.Errorf(agent.KindInvalidRequest, "The request body broke off. Send it again.").Because(err)
	}
	// From here on the connection is idle while the turn runs, as long as that takes.
	_ = rc.SetReadDeadline(time.Time{})
	exchangeOf(r).read = true
	return body, nil
}

// The buffer of a body begins small and grows a few times, to the length of the whole at last:
// what is allocated stays near what has come.
const (
	firstBuffer = 4 << 10
	growth      = 4
)

// readAll reads to the end, or as many bytes as most, and takes room for them.
func (s *Server) readAll(x *exchange, r io.Reader, most int64) ([]byte, error) {
	var body []byte
	for size := min(firstBuffer, most); ; size = min(growth*size, most) {
		if err := s.bodies.hold(x, size-int64(cap(body))); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
		for len(body) < cap(body) {
			n, err := r.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			if errors.Is(err, io.EOF) {
				return body, nil
			}
			if err != nil {
				return nil, err
			}
		}
		if size == most {
			return body, nil
		}
	}
}

// pacedReader bounds every read of a body, and all of them together, so that a
// sender who stands still or drips holds a connection for a bounded time only.
type pacedReader struct {
	rc          *http.ResponseController
	r           io.Reader
	start       time.Time
	idle, total time.Duration
	got         int64
}

// minPace is what a body must bring after the first idle time, in bytes a second.
const minPace = 16 << 10

func (p *pacedReader) Read(b []byte) (int, error) {
	earned := p.idle + time.Duration(p.got)*(time.Second/minPace)
	end := p.start.Add(min(earned, p.total))
	if next := time.Now().Add(p.idle); next.Before(end) {
		end = next
	}
	_ = p.rc.SetReadDeadline(end) // not every writer has a connection behind it
	n, err := p.r.Read(b)
	p.got += int64(n)
	return n, err
}

func (s *Server) tooLarge(w http.ResponseWriter) error {
	hangUp(w)
	return agent.Errorf(agent.KindPayloadTooLarge,
		"The request body may have at most %d bytes. Send fewer or smaller artifacts.", s.limits.Body)
}

// hangUp closes the connection after the answer and stops net/http from reading the
// rest of the body first.
func hangUp(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
}

// jsonMedia accepts application/json in UTF-8, uncompressed. A page of another origin
// can send none of these without a preflight, which we never grant.
func jsonMedia(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return agent.Errorf(agent.KindUnsupportedMediaType, "Compressed request bodies are not taken. Send the JSON as it is.")
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return agent.Errorf(agent.KindUnsupportedMediaType, "Send the body as Content-Type: application/json.")
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return agent.Errorf(agent.KindUnsupportedMediaType, "JSON is UTF-8 here. Send it as Content-Type: application/json without parameters.")
		}
	}
	return nil
}

// pageOf reads ?limit= and ?cursor=.
func pageOf(r *http.Request) (store.Page, error) {
	q := r.URL.Query()
	p := store.Page{Cursor: q.Get("cursor")}
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > store.MaxLimit {
			return store.Page{}, agent.Errorf(agent.KindInvalidRequest, "limit must be a number from 1 to %d.", store.MaxLimit)
		}
		p.Limit = n
	}
	return p, nil
}

// afterOf reads the sequence from which a stream goes on. Last-Event-ID, which a
// reconnecting EventSource adds by itself, is fresher than the ?after= that stands
// in its URL, so it wins.
func afterOf(r *http.Request) (int64, error) {
	text, name := r.URL.Query().Get("after"), "after"
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		text, name = id, "Last-Event-ID"
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, agent.Errorf(agent.KindInvalidRequest, "%s must be the sequence number of an event that you have seen, or 0.", name)
	}
	return n, nil
}

// sessionID reads the session that a path names. A name that no session can have
// names none.
func sessionID(r *http.Request) (agent.SessionID, error) {
	id := r.PathValue("sessionId")
	if !agent.ValidID(id) {
		return "", agent.Errorf(agent.KindNotFound, "There is no such session.")
	}
	exchangeOf(r).turn = agent.TurnKey{Org: callerOf(r).Org, Session: agent.SessionID(id)}
	return agent.SessionID(id), nil
}

// turnKey reads the turn that a path names, in the caller's organisation.
func turnKey(r *http.Request) (agent.TurnKey, error) {
	session, err := sessionID(r)
	if err != nil {
		return agent.TurnKey{}, err
	}
	turn := r.PathValue("turnId")
	if !agent.ValidID(turn) {
		return agent.TurnKey{}, agent.Errorf(agent.KindNotFound, "There is no such turn.")
	}
	key := agent.TurnKey{Org: callerOf(r).Org, Session: session, Turn: agent.TurnID(turn)}
	exchangeOf(r).turn = key
	return key, nil
}
