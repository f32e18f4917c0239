// Package intern keeps what is made of texts that come again and again, so that it is made
// once and held once: the head of a request is the same for all turns of a mode.
package intern

import "sync"

// What a Table keeps: values of so many texts, none of them longer, in bytes.
const (
	most    = 64
	longest = 64 << 10
)

// Table keeps values by the texts that they are made of. The zero Table is empty. It is safe
// for concurrent use, and its values are shared: nobody may change them.
type Table[V any] struct {
	mu    sync.Mutex // guards known
	known map[string]V
}

// Of returns the value of a text, which create makes of it unless it is kept. A text is all
// that a value depends on. What does not fit is made each time.
func (t *Table[V]) Of(text string, create func(text string) V) V {
	t.mu.Lock()
	v, ok := t.known[text]
	t.mu.Unlock()
	if ok {
		return v
	}
	return t.keep(text, create(text))
}

// OfBytes is Of for a text that the caller goes on to use for others.
func (t *Table[V]) OfBytes(text []byte, create func(text string) V) V {
	t.mu.Lock()
	v, ok := t.known[string(text)] // without a copy
	t.mu.Unlock()
	if ok {
		return v
	}
	own := string(text)
	return t.keep(own, create(own))
}

// keep keeps a value, and returns the one that is kept.
func (t *Table[V]) keep(text string, v V) V {
	if len(text) > longest {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if first, ok := t.known[text]; ok { // of somebody who was faster
		return first
	}
	// All go when there is no room: texts that still come are there again soon, and those
	// that came once are gone.
	if t.known == nil || len(t.known) >= most {
		t.known = make(map[string]V)
	}
	t.known[text] = v
	return v
}
