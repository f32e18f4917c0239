package chat

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// editor reads lines from a person at a terminal, who can edit them, find earlier ones with
// the arrow keys, and paste several at once. The terminal is its own only while it reads:
// at other times Ctrl-C is a signal as ever.
type editor struct {
	tty  tty
	past history
	// complete returns what the Tab key makes of a line.
	complete func(line string) (string, bool)

	keys *keyboard
	term *term.Terminal

	mu      sync.Mutex
	pending chan line // of the read that is under way
	restore func()    // gives the terminal back, while that read has it
}

// tty is a terminal.
type tty interface {
	io.ReadWriter
	// raw lets every key through, until restore is called.
	raw() (restore func(), err error)
	// size returns its columns and rows.
	size() (width, height int, err error)
	// flush drops what was typed and not yet read.
	flush()
}

func newEditor(t tty, complete func(string) (string, bool)) *editor {
	e := &editor{tty: t, complete: complete}
	e.reset()
	return e
}

// reset forgets what was begun and not finished.
func (e *editor) reset() {
	e.keys = &keyboard{ReadWriter: e.tty}
	e.term = term.NewTerminal(e.keys, "")
	e.term.History = &e.past
	e.term.AutoCompleteCallback = func(line string, _ int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		completed, ok := e.complete(line)
		return completed, len(completed), ok
	}
}

// next implements input. A read that nobody waits for any more is not begun again.
func (e *editor) next(prompt string) <-chan line {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending == nil {
		e.pending = make(chan line, 1)
		go e.deliver(prompt, e.pending)
	}
	return e.pending
}

func (e *editor) deliver(prompt string, to chan<- line) {
	text, err := "", e.take()
	if err == nil {
		text, err = e.edit(prompt)
		e.close()
	}
	e.mu.Lock()
	e.pending = nil
	e.mu.Unlock()
	to <- line{text, err}
}

// take makes the terminal the editor's.
func (e *editor) take() error {
	restore, err := e.tty.raw()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.restore = restore
	return nil
}

// close gives the terminal back, also in the middle of a line.
func (e *editor) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.restore != nil {
		e.restore()
		e.restore = nil
	}
}

// edit lets the user edit one line. Lines that are pasted together are one, which ends with
// the first that is typed.
func (e *editor) edit(prompt string) (string, error) {
	if width, height, err := e.tty.size(); err == nil && width > 0 {
		_ = e.term.SetSize(width, height) // its one error is that of a write, which the next one has too
	}
	e.term.SetBracketedPasteMode(true)
	defer e.term.SetBracketedPasteMode(false)
	e.keys.interrupted = false

	e.term.SetPrompt(prompt)
	text := ""
	for {
		part, err := e.term.ReadLine()
		switch {
		case errors.Is(err, term.ErrPasteIndicator):
			text += part + "\n"
			e.term.SetPrompt("")
			if len(text) > maxLine {
				return "", errTooLong
			}
			continue
		case err == nil:
			return strings.ToValidUTF8(text+part, "\ufffd"), nil
		}
		_, _ = io.WriteString(e.tty, "\r\n")
		interrupted := e.keys.interrupted
		e.reset()
		if errors.Is(err, io.EOF) && interrupted {
			return "", ErrInterrupted
		}
		return "", err
	}
}

// question implements input: what was typed before it is no answer to it, and the answer is
// not a line that anybody looks for later.
func (e *editor) question(asking bool) int {
	e.past.close(asking)
	e.mu.Lock()
	defer e.mu.Unlock()
	if asking && e.pending == nil {
		e.tty.flush()
		e.reset()
	}
	return 0
}

// keyboard notices Ctrl-C, which term.Terminal does not tell from Ctrl-D.
type keyboard struct {
	io.ReadWriter
	interrupted bool
}

const ctrlC = 3

func (k *keyboard) Read(b []byte) (int, error) {
	n, err := k.ReadWriter.Read(b)
	k.interrupted = k.interrupted || bytes.IndexByte(b[:n], ctrlC) >= 0
	return n, err
}

// maxHistory bounds how many lines can be found again.
const maxHistory = 500

// history are the lines of this conversation, the last one first.
type history struct {
	mu     sync.Mutex
	lines  []string
	closed bool // what comes is an answer to a question
}

func (h *history) close(closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = closed
}

// Add implements term.History.
func (h *history) Add(entry string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || strings.TrimSpace(entry) == "" || len(h.lines) > 0 && h.lines[0] == entry {
		return
	}
	h.lines = append([]string{entry}, h.lines...)
	h.lines = h.lines[:min(len(h.lines), maxHistory)]
}

// Len implements term.History.
func (h *history) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

// At implements term.History.
func (h *history) At(i int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[i]
}

// console is the terminal of this process.
type console struct {
	in  *os.File
	out io.Writer
}

func (c console) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c console) Write(b []byte) (int, error) { return c.out.Write(b) }

func (c console) raw() (func(), error) {
	fd := int(c.in.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, state) }, nil
}

func (c console) size() (int, int, error) { return term.GetSize(int(c.in.Fd())) }

func (c console) flush() { flushInput(int(c.in.Fd())) }
