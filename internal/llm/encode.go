package llm

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/aptixhq/aptix/internal/intern"
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

// systemItems are the system messages, and heads those of requests: sessions of one mode have
// the same, and of a short turn they are the largest part.
var (
	systemItems intern.Table[json.RawMessage]
	heads       intern.Table[string]
)

// systemItem returns the item of a system message as encode does; nobody may change it.
func systemItem(m message) json.RawMessage {
	b := buffers.Get().(*bytes.Buffer)
	defer release(b)
	return systemItems.OfBytes(encodeTo(b, m), func(text string) json.RawMessage { return json.RawMessage(text) })
}
