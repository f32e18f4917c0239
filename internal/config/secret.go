package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// Secret is text that must not be shown: however it is printed, logged or marshalled,
// it comes out as ***. Reveal returns it.
type Secret string

const masked = "***"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String masks the secret; the empty one is shown as what it is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format masks the secret for every verb, such as %x, which would pass String by.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') || verb == 'q' {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText masks the secret in JSON, YAML and whatever else marshals text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// address renders a path or a URL without the password that it may hold.
func (s Secret) address() string {
	u, err := url.Parse(string(s))
	switch {
	case s.isPostgreSQL():
		return s.database()
	case err != nil:
		return s.String() // not readable, so nobody knows where a password may be
	case u.Scheme == "" || u.Host == "":
		return string(s)
	}
	if u.RawQuery != "" {
		u.RawQuery = masked // a password may stand among the parameters too
	}
	return u.Redacted()
}

// isPostgreSQL reports whether this is the address of a PostgreSQL database.
func (s Secret) isPostgreSQL() bool {
	return strings.HasPrefix(string(s), "postgres://") || strings.HasPrefix(string(s), "postgresql://")
}

// database renders the address of a database as its host and its name. Anything else in
// it may be a password, or lead to one.
func (s Secret) database() string {
	u, err := url.Parse(string(s))
	if err != nil {
		return s.String()
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host") // such as the folder of a unix socket
	}
	return "postgres://" + host + u.EscapedPath()
}
