package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errTooLong = errors.New("an event is larger than the configured bound")

// message is one server-sent event.
type message struct {
	id, event string
	data      []byte
}

// sseReader splits a stream into messages (HTML Living Standard, server-sent events).
// Comments, which servers send to keep a connection open, are passed over.
type sseReader struct {
	r   *bufio.Reader
	max int64
}

func newSSEReader(r io.Reader, max int64) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 32<<10), max: max}
}

// next returns the next message that has data. A message that the end of the stream
// cut off is not returned.
func (s *sseReader) next() (message, error) {
	var m message
	for left := s.max; ; {
		line, err := s.line(left)
		if err != nil {
			return message{}, err
		}
		left -= int64(len(line))
		if len(line) == 0 {
			if len(m.data) == 0 {
				m, left = message{}, s.max
				continue
			}
			m.data = m.data[:len(m.data)-1] // the newline after the last line
			return m, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			m.data = append(append(m.data, value...), '\n')
		case "event":
			m.event = string(value)
		case "id":
			m.id = string(value)
		case "": // a comment is no part of a message
			left = s.max - int64(len(m.data))
		}
	}
}

// line returns the next line without its end, of at most max bytes.
func (s *sseReader) line(max int64) ([]byte, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if int64(len(line)+len(part)) > max+2 {
			return nil, errTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
