package chat

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line that is typed or piped in.
const maxLine = 1 << 20

// input reads lines ahead, so that the conversation can wait for a line and for Ctrl-C
// at the same time.
type input struct {
	lines chan string // closed at the end
	done  chan struct{}
	err   error // why the lines ended; read after lines is closed
}

// readLines starts reading. The goroutine ends with the input or after close; one that
// is blocked in a read of the terminal ends with the process, since nothing else can
// wake it.
func readLines(r io.Reader) *input {
	in := &input{lines: make(chan string, 64), done: make(chan struct{})}
	go func() {
		defer close(in.lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			select {
			case in.lines <- strings.ToValidUTF8(s.Text(), "\ufffd"):
			case <-in.done:
				return
			}
		}
		in.err = s.Err()
	}()
	return in
}

func (in *input) close() { close(in.done) }

// end says why there are no more lines.
func (in *input) end() error {
	switch {
	case errors.Is(in.err, bufio.ErrTooLong):
		return fmt.Errorf("a line has more than %d bytes", maxLine)
	case in.err != nil:
		return fmt.Errorf("read the input: %w", in.err)
	}
	return io.EOF
}

// discard drops the lines that are there already and returns how many.
func (in *input) discard() int {
	for n := 0; ; n++ {
		select {
		case _, ok := <-in.lines:
			if !ok {
				return n
			}
		default:
			return n
		}
	}
}
