// Package sse reads server-sent events at the least cost: without copies, without
// decoding. The load driver and the floors share it, so that reading costs the same
// whoever is measured. It has no part in a turn.
//
// Order is that of the stream. A reader that is slow holds up whoever writes; nothing
// is dropped, and nothing is resumed.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds one line. The longest ones repeat a whole answer.
const maxLine = 1 << 20

var errLong = errors.New("a line of the stream is longer than 1 MiB")

// Event is one event. Its members are valid until the next call of Reader.Next.
type Event struct {
	Name, ID, Data []byte
}

// Reader splits a stream into events. An event has one line of data, as all servers
// write it that are measured here.
type Reader struct {
	r    *bufio.Reader
	text []byte // the lines of the current event
}

// NewReader returns a reader of the stream r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 8<<10)}
}

// Next returns the next event, or io.EOF. An event that the end of the stream cuts off
// is not returned; io.ErrUnexpectedEOF tells of it.
func (r *Reader) Next() (Event, error) {
	r.text = r.text[:0]
	for {
		start := len(r.text)
		if err := r.line(); err != nil {
			if err == io.EOF && len(r.text) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		if len(r.text) > start {
			continue
		}
		// Only now do the lines no longer move.
		if e := parse(r.text); e.Name != nil || e.Data != nil {
			return e, nil
		}
		r.text = r.text[:0] // a comment, which keeps the connection open
	}
}

// line appends the next line and its end, or nothing when it is empty.
func (r *Reader) line() error {
	start := len(r.text)
	for {
		part, err := r.r.ReadSlice('\n')
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			if n := len(r.text); n-start == 1 || n-start == 2 && r.text[start] == '\r' {
				r.text = r.text[:start]
			}
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		case len(r.text)-start > maxLine:
			return errLong
		}
	}
}

func parse(text []byte) Event {
	var e Event
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.Name = value
		case "id":
			e.ID = value
		case "data":
			e.Data = value
		}
	}
	return e
}

// String returns the value of a string member of a JSON object, as it stands there,
// escapes included: the first member of that name, at whatever depth. It is nil when
// there is none. Decoding would cost more than the turn that is measured.
func String(object []byte, member string) []byte {
	for rest := object; ; {
		i := bytes.Index(rest, []byte(member))
		if i < 0 {
			return nil
		}
		before, after := rest[:i], rest[i+len(member):]
		rest = after
		value, ok := bytes.CutPrefix(after, []byte(`":"`))
		if !ok || !bytes.HasSuffix(before, []byte(`"`)) {
			continue
		}
		for end := 0; end < len(value); end++ {
			switch value[end] {
			case '\\':
				end++
			case '"':
				return value[:end]
			}
		}
		return nil
	}
}
