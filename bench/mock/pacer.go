package mock

import (
	"container/heap"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// pacer writes the tokens of all streams, each at its time, from one goroutine. A timer
// and a goroutine for each stream, and net/http's buffers behind them, would take as much
// of the machine as what is measured on it.
type pacer struct {
	gap time.Duration

	mu      sync.Mutex // guards what follows
	streams byDue
	runs    bool
	added   chan struct{} // of one place; receives when there is a stream more
}

// stream is an answer under way.
type stream struct {
	conn   net.Conn
	raw    syscall.RawConn // the same
	answer *answer
	values values
	done   func() // called once, at the end
	frame  int    // the next one
	token  time.Time
	due    time.Time // when something is to be done about it
	unsent []byte    // what the reader had no room for
	since  time.Time // for how long it has had none
}

const (
	// header begins a stream. Its connection is not used again.
	header = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	// again is when a reader without room is written to again, stuck when it is cut.
	again, stuck = 2 * time.Millisecond, 30 * time.Second
)

// take makes the connection of a request into a stream whose first token comes at a time.
// When it cannot, done is not called.
func (p *pacer) take(w http.ResponseWriter, a *answer, v values, first time.Time, done func()) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	s := &stream{conn: conn, raw: raw, answer: a, values: v, done: done, token: first, due: time.Now(), unsent: []byte(header)}
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.streams, s)
	if !p.runs {
		p.runs, p.added = true, make(chan struct{}, 1)
		go p.run(p.added)
	}
	select {
	case p.added <- struct{}{}:
	default:
	}
	return nil
}

// run writes until there are no streams.
func (p *pacer) run(added <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var chunk, events []byte
	for {
		s, wait := p.next()
		switch {
		case s == nil && wait == 0:
			return
		case s == nil:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-added:
			}
			continue
		}
		now := time.Now()
		events = s.upTo(now, p.gap, events[:0])
		chunk = append(chunk[:0], s.unsent...)
		if len(events) > 0 {
			chunk = strconv.AppendInt(chunk, int64(len(events)), 16)
			chunk = append(append(append(chunk, "\r\n"...), events...), "\r\n"...)
		}
		last := s.frame == len(s.answer.frames)
		if last && len(events) > 0 {
			chunk = append(chunk, "0\r\n\r\n"...)
		}
		n, err := s.write(chunk)
		s.unsent = append(s.unsent[:0], chunk[n:]...)
		if n > 0 || s.since.IsZero() {
			s.since = now
		}
		if err != nil || last && len(s.unsent) == 0 || now.Sub(s.since) > stuck {
			_ = s.conn.Close()
			s.done()
			continue
		}
		s.due = s.token
		if len(s.unsent) > 0 {
			s.due = now.Add(again)
		}
		p.mu.Lock()
		heap.Push(&p.streams, s)
		p.mu.Unlock()
	}
}

// next takes out the stream that is due, or says how long none is. Without streams it
// says 0, and that run ends.
func (p *pacer) next() (*stream, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.streams) == 0 {
		p.runs = false
		return nil, 0
	}
	if wait := time.Until(p.streams[0].due); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&p.streams).(*stream), 0
}

// upTo appends the events that are to be sent by now.
func (s *stream) upTo(now time.Time, gap time.Duration, b []byte) []byte {
	for ; s.frame < len(s.answer.frames); s.frame++ {
		f := s.answer.frames[s.frame]
		if f.token {
			if s.token.After(now) {
				break
			}
			s.token = s.token.Add(gap)
		}
		b = f.fill(b, s.values)
	}
	return b
}

// byDue is a heap of streams, the one that is due first at its top.
type byDue []*stream

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h byDue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDue) Push(s any)        { *h = append(*h, s.(*stream)) }
func (h *byDue) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
