package llm

import (
	"bytes"
	"encoding/json"
	"sync"
)

// encode writes v as JSON without HTML escapes. All that is encoded here is made of
// strings, booleans, finite numbers and JSON that was checked, so it cannot fail.
func encode(v any) []byte {
	b := buffers.Get().(*bytes.Buffer)
	defer release(b)
	// A turn keeps it as long as it runs, and has no use for room to grow.
	return bytes.Clone(encodeTo(b, v))
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// release gives a buffer back, unless an image or a file has made it large.
func release(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		buffers.Put(b)
	}
}

// encodeTo returns what stands in b then.
func encodeTo(b *bytes.Buffer, v any) []byte {
	b.Reset()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// sharedItems keeps items that many turns send, so that those that run at the same time
// hold one copy: of a short turn it is the largest part.
type sharedItems struct {
	mu    sync.Mutex // guards known
	known map[string]json.RawMessage
}

// systemItems are the system messages: sessions of one mode have the same.
var systemItems sharedItems

// What a sharedItems keeps: so many items, none of them longer.
const (
	sharedMost    = 64
	sharedLongest = 64 << 10
)

// encode returns the item as encode does; nobody may change it.
func (s *sharedItems) encode(m message) json.RawMessage {
	b := buffers.Get().(*bytes.Buffer)
	defer release(b)
	item := encodeTo(b, m)
	if len(item) > sharedLongest {
		return bytes.Clone(item)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[string(item)]; ok {
		return known
	}
	if len(s.known) >= sharedMost || s.known == nil {
		s.known = map[string]json.RawMessage{}
	}
	own := bytes.Clone(item)
	s.known[string(item)] = own
	return own
}
