// Package secret holds texts that must not be shown: keys, passwords, and addresses that
// have one in them. A secret is carried as a Text from where it is read to where it is put
// on the wire, and is revealed there and nowhere before.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Text is a text that must not be shown: however it is printed, logged or marshalled, it
// comes out as ***. Reveal returns it. The zero Text is the empty one, which is shown as
// what it is.
//
// It is behind a pointer, since fmt reads the unexported fields of a struct without asking
// their types how they want to be shown.
type Text struct{ revealed *string }

// Mask is what is shown of a secret.
const Mask = "***"

// New returns a text as a secret.
func New(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{&s}
}

// Reveal returns the secret itself.
func (t Text) Reveal() string {
	if t.revealed == nil {
		return ""
	}
	return *t.revealed
}

// IsZero reports whether there is nothing to hide.
func (t Text) IsZero() bool { return t.revealed == nil }

// Equal reports whether two secrets are the same, in a time that does not tell how much of
// them is.
func (t Text) Equal(o Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(o.Reveal())) == 1
}

// String masks the secret; the empty one is shown as what it is.
func (t Text) String() string {
	if t.IsZero() {
		return ""
	}
	return Mask
}

// GoString masks the secret for %#v.
func (t Text) GoString() string { return fmt.Sprintf("%q", t.String()) }

// Format masks the secret for every verb, such as %x, which would pass String by.
func (t Text) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') || verb == 'q' {
		_, _ = io.WriteString(f, t.GoString())
		return
	}
	_, _ = io.WriteString(f, t.String())
}

// MarshalText masks the secret in JSON, YAML and whatever else marshals text.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue masks the secret in logs.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }
