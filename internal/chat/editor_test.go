package chat

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// keys is a terminal whose user types what stands in it, a read at a time.
type keys struct {
	typed   chan string
	mu      sync.Mutex
	out     bytes.Buffer
	isRaw   bool
	flushes int
}

func newKeys(typed ...string) *keys {
	k := &keys{typed: make(chan string, 100)}
	for _, t := range typed {
		k.typed <- t
	}
	return k
}

func (k *keys) Read(b []byte) (int, error) {
	t, ok := <-k.typed
	if !ok {
		return 0, io.EOF
	}
	return copy(b, t), nil
}

func (k *keys) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.out.Write(b)
}

func (k *keys) raw() (func(), error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isRaw {
		return nil, errors.New("the terminal is taken twice")
	}
	k.isRaw = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.isRaw = false
	}, nil
}

func (k *keys) taken() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isRaw
}

func (*keys) size() (int, int, error) { return 80, 24, nil }

func (k *keys) flush() { k.flushes++ }

func TestEditor(t *testing.T) {
	const up, left = "\x1b[A", "\x1b[D"
	for _, test := range []struct {
		name  string
		typed []string
		want  []string // a line each; "^C" and "^D" for the ends
	}{
		{"a line", []string{"hello\r"}, []string{"hello"}},
		{"a line that is mended", []string{"hullo" + left + left + left + "\x7f" + "e\r"}, []string{"hello"}},
		{"an earlier line", []string{"one\r", "two\r", up + up + "\r"}, []string{"one", "two", "one"}},
		{"several that were pasted are one", []string{"see \x1b[200~first\rsecond\r\x1b[201~", "third\r"}, []string{"see first", "second\nthird"}},
		{"pasted from the start", []string{"\x1b[200~first\rsecond\r\x1b[201~", "\r"}, []string{"first\nsecond\n"}},
		{"two commands begin like that", []string{"/mo\t\r"}, []string{"/mo"}},
		{"the only command is completed", []string{"/req\t2\r"}, []string{"/requests 2"}},
		{"Ctrl-C drops the line", []string{"half\x03", "whole\r"}, []string{"^C", "whole"}},
		{"Ctrl-D leaves", []string{"\x04"}, []string{"^D"}},
		{"the terminal goes away", nil, []string{"^D"}},
		{"not all of it is text", []string{"a\xffb\r"}, []string{"ab"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKeys(test.typed...)
			close(k.typed)
			e := newEditor(k, complete)
			for _, want := range test.want {
				l := <-e.next("> ")
				got := l.text
				switch {
				case errors.Is(l.err, ErrInterrupted):
					got = "^C"
				case errors.Is(l.err, io.EOF):
					got = "^D"
				case l.err != nil:
					t.Fatal(l.err)
				}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if k.taken() {
					t.Error("the terminal is still the editor's")
				}
			}
		})
	}
}

// What was typed before a question is no answer, and an answer is no line to be found again.
func TestEditor_Questions(t *testing.T) {
	k := newKeys("write it\r", "y\r", "\x1b[A\r")
	e := newEditor(k, complete)
	<-e.next("> ")
	e.question(true)
	if k.flushes != 1 {
		t.Error("what was typed ahead was kept")
	}
	if l := <-e.next("Allow it? "); l.text != "y" {
		t.Errorf("got %+v", l)
	}
	e.question(false)
	if l := <-e.next("> "); l.text != "write it" {
		t.Errorf("the arrow finds %q", l.text)
	}
	if !strings.Contains(k.out.String(), "Allow it? ") {
		t.Error("the question was not shown")
	}
}

// A line that nobody waits for any more is waited for by the next who asks.
func TestEditor_OneReadAtATime(t *testing.T) {
	k := newKeys()
	e := newEditor(k, complete)
	first := e.next("> ")
	e.question(true)
	second := e.next("> ")
	k.typed <- "late\r"
	if l := <-second; l.text != "late" || first != second || k.flushes != 0 {
		t.Errorf("got %+v, flushed %d times", l, k.flushes)
	}

	e.next("> ")
	for !k.taken() {
		time.Sleep(time.Millisecond)
	}
	e.close()
	if k.taken() {
		t.Error("the terminal was not given back")
	}
	close(k.typed)
}
