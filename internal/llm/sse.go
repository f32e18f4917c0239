package llm

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// errEventTooLarge tells that one event is longer than the reader takes.
var errEventTooLarge = errors.New("an event of the stream is too large")

// serverEvent is one server-sent event. It is valid until the next call of next.
type serverEvent struct {
	Name []byte
	Data []byte
}

// sseReader reads server-sent events as the HTML standard defines them: lines end in
// LF, CR or CRLF, a BOM may come first, lines that begin with a colon are comments,
// several data lines are one text, and an event that no blank line ends never was.
type sseReader struct {
	r   io.Reader
	max int

	buf     []byte
	small   []byte  // buf, unless that is large
	large   *[]byte // buf, when it is one of largeBuffers
	filled  int     // how much the last fill read
	unread  []byte  // the part of buf that is not read yet
	line    lent    // a line that spans several fills of buf
	data    []byte  // of the event; the reader's own only when it stands in kept
	kept    lent
	name    []byte
	hasData bool
	afterCR bool // the last line ended in CR; an LF that follows belongs to it
	begun   bool
}

// lent is bytes in a large buffer, which is there only while it has some: most events are
// read where they stand, and a stream waits nearly all its life.
type lent struct {
	bytes  []byte
	buffer *[]byte
}

func (l *lent) append(b []byte) {
	if l.buffer == nil {
		l.buffer = largeBuffers.Get().(*[]byte)
		l.bytes = (*l.buffer)[:0]
	}
	l.bytes = append(l.bytes, b...)
}

// clear gives the buffer back. What had to become longer is not it any more.
func (l *lent) clear() {
	if l.buffer != nil {
		largeBuffers.Put(l.buffer)
	}
	*l = lent{}
}

// newSSEReader returns a reader that wants to be closed.
func newSSEReader(r io.Reader, maxEvent int) *sseReader {
	small := make([]byte, smallBuffer)
	return &sseReader{r: r, max: maxEvent, buf: small, small: small}
}

// The reader's buffer is small, since most of a stream's life is waiting for a few
// bytes. While more comes at a time it borrows a large one.
const (
	smallBuffer = 1 << 10
	largeBuffer = 16 << 10
)

var largeBuffers = sync.Pool{New: func() any {
	b := make([]byte, largeBuffer)
	return &b
}}

// fill reads into the buffer, of which all has been used.
func (s *sseReader) fill() (n int, err error) {
	s.keep()
	switch {
	case s.large == nil && s.filled == smallBuffer:
		s.large = largeBuffers.Get().(*[]byte)
		s.buf = *s.large
	case s.large != nil && s.filled < smallBuffer:
		s.shrink()
	}
	s.filled, err = s.r.Read(s.buf)
	s.unread = s.buf[:s.filled]
	return s.filled, err
}

// shrink gives the large buffer back.
func (s *sseReader) shrink() {
	if s.large != nil {
		largeBuffers.Put(s.large)
	}
	s.large, s.buf, s.unread = nil, s.small, nil
}

// close gives all buffers back. What next has returned is not valid any more.
func (s *sseReader) close() {
	s.shrink()
	s.line.clear()
	s.kept.clear()
}

// keep copies data that stands where something else is about to be written.
func (s *sseReader) keep() {
	if s.hasData && s.kept.buffer == nil {
		s.kept.append(s.data)
		s.data = s.kept.bytes
	}
}

// next returns the next event, io.EOF after the last one.
func (s *sseReader) next() (serverEvent, error) {
	s.data, s.name, s.hasData = nil, s.name[:0], false
	s.line.clear()
	s.kept.clear()
	for {
		line, err := s.nextLine()
		if err != nil {
			return serverEvent{}, err
		}
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) > 0 {
			if err := s.field(line); err != nil {
				return serverEvent{}, err
			}
			continue
		}
		if s.hasData {
			return serverEvent{Name: s.name, Data: s.data}, nil
		}
		s.name = s.name[:0]
	}
}

func (s *sseReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(s.data)+len(value) >= s.max {
			return errEventTooLarge
		}
		if !s.hasData {
			s.data, s.hasData = value, true
			return nil
		}
		s.keep()
		s.kept.append([]byte{'\n'})
		s.kept.append(value)
		s.data = s.kept.bytes
	case "event":
		s.name = append(s.name[:0], value...)
	}
	return nil
}

// nextLine returns the next line without its end. A last line without an end is
// dropped with the event that it belongs to.
func (s *sseReader) nextLine() ([]byte, error) {
	whole := true
	for {
		if len(s.unread) == 0 {
			if n, err := s.fill(); n == 0 {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if s.afterCR {
			s.afterCR = false
			if s.unread[0] == '\n' {
				s.unread = s.unread[1:]
				continue
			}
		}
		i := lineEnd(s.unread)
		if i < 0 {
			if whole {
				s.keep()
				s.line.bytes, whole = s.line.bytes[:0], false
			}
			if len(s.line.bytes)+len(s.unread) > s.max {
				return nil, errEventTooLarge
			}
			s.line.append(s.unread)
			s.unread = nil
			continue
		}
		s.afterCR = s.unread[i] == '\r'
		line := s.unread[:i]
		s.unread = s.unread[i+1:]
		if whole {
			return line, nil
		}
		s.line.append(line)
		return s.line.bytes, nil
	}
}

// lineEnd returns the place of the first CR or LF, -1 when there is none.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
