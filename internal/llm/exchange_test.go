package llm

import (
	"io"
	"strings"
	"testing"
)

// The memory of a body goes to the next request when it has been sent, and never while
// somebody may still read it.
func TestPayload(t *testing.T) {
	body := strings.Repeat("a", 10_000)
	half := func(r io.Reader) []byte {
		read := make([]byte, len(body)/2)
		if _, err := io.ReadFull(r, read); err != nil {
			t.Fatal(err)
		}
		return read
	}
	for name, tc := range map[string]struct {
		// send begins, and returns who reads on, with what was read.
		send func(p *payload) (io.Reader, []byte)
		lent bool // to the next request
	}{
		"sent": {func(p *payload) (io.Reader, []byte) {
			all, err := io.ReadAll(p.reader())
			if err != nil {
				t.Fatal(err)
			}
			p.wrote()
			return strings.NewReader(""), all
		}, true},
		"given up": {func(p *payload) (io.Reader, []byte) {
			half(p.reader())
			p.wrote()
			return strings.NewReader(""), []byte(body)
		}, true},
		"answered before it is sent": {func(p *payload) (io.Reader, []byte) {
			r := p.reader()
			return r, half(r)
		}, false},
		"sent twice": {func(p *payload) (io.Reader, []byte) {
			half(p.reader())
			p.wrote()
			r, err := p.again()
			if err != nil {
				t.Fatal(err)
			}
			return r, half(r)
		}, false},
		"sent twice at once": {func(p *payload) (io.Reader, []byte) {
			p.reader()
			r, err := p.again()
			if err != nil {
				t.Fatal(err)
			}
			p.wrote() // by the first attempt
			return r, half(r)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			lent := false
			for range 20 { // a pool may lose things
				p := newPayload(&Wire{Head: body})
				memory := &p.buffer.Bytes()[0]
				rest, read := tc.send(p)
				p.release()
				// One of these has the memory, if it was given back.
				for range 10 {
					next := newPayload(&Wire{Head: strings.Repeat("b", len(body))})
					lent = lent || &next.buffer.Bytes()[0] == memory
				}
				all, err := io.ReadAll(rest)
				if err != nil {
					t.Fatal(err)
				}
				if all = append(read, all...); string(all) != body {
					t.Errorf("the body reads %.40q…", all)
				}
				if _, err := p.again(); err == nil {
					t.Error("a request that is over can be sent again")
				}
			}
			if lent != tc.lent {
				t.Errorf("its memory is lent: %v", lent)
			}
		})
	}
}
