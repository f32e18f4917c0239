package chat

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line that is typed or piped in, in bytes.
const maxLine = 1 << 20

var errTooLong = fmt.Errorf("a line has more than %d bytes", maxLine)

// input is where lines come from.
type input interface {
	// next begins to read a line, unless one is being read, and returns where it arrives:
	// one, or why there are no more.
	next(prompt string) <-chan line
	// question says whether the next line is an answer to one. It returns how many lines,
	// which were typed before the question, are left out.
	question(asking bool) int
	close()
}

// line is what the user says, or why there is nothing more: io.EOF, ErrInterrupted or
// another error.
type line struct {
	text string
	err  error
}

// reader reads lines ahead, so that the conversation can wait for a line and for Ctrl-C
// at the same time.
type reader struct {
	lines    chan line // the last one has an error
	done     chan struct{}
	discards bool // lines that are there before a question do not answer it
}

// readLines starts reading. The goroutine ends with the input or after close; one that
// is blocked in a read of the terminal ends with the process, since nothing else can
// wake it.
func readLines(from io.Reader, discards bool) *reader {
	r := &reader{lines: make(chan line, 64), done: make(chan struct{}), discards: discards}
	go func() {
		s := bufio.NewScanner(from)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			if !r.put(line{text: strings.ToValidUTF8(s.Text(), "\ufffd")}) {
				return
			}
		}
		for r.put(line{err: ended(s.Err())}) { // whoever asks again is told again
		}
	}()
	return r
}

func (r *reader) put(l line) bool {
	select {
	case r.lines <- l:
		return true
	case <-r.done:
		return false
	}
}

// ended says why there are no more lines.
func ended(err error) error {
	switch {
	case err == nil:
		return io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return errTooLong
	}
	return fmt.Errorf("read the input: %w", err)
}

func (r *reader) next(string) <-chan line { return r.lines }

func (r *reader) question(asking bool) int {
	for n := 0; asking && r.discards; n++ {
		select {
		case l := <-r.lines:
			if l.err != nil {
				return n
			}
		default:
			return n
		}
	}
	return 0
}

func (r *reader) close() { close(r.done) }
