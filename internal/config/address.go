package config

import (
	"net/url"
	"strings"

	"github.com/aptixhq/aptix/internal/secret"
)

// address renders a path or a URL without what in it may be secret: whoever it names, and
// its parameters.
func address(s secret.Text) string {
	u, err := url.Parse(s.Reveal())
	switch {
	case isPostgreSQL(s):
		return databaseName(s)
	case err != nil:
		return s.String() // not readable, so nobody knows where a password may be
	case u.Scheme == "" || u.Host == "":
		return s.Reveal()
	}
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = secret.Mask
	}
	return u.String()
}

// addresses renders a list of servers, with commas between them, each without what may be
// secret. One without a scheme is one of NATS.
func addresses(s secret.Text) string {
	var out []string
	for part := range strings.SplitSeq(s.Reveal(), ",") {
		if part = strings.TrimSpace(part); part != "" && !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		out = append(out, address(secret.New(part)))
	}
	return strings.Join(out, ",")
}

// isPostgreSQL reports whether this is the address of a PostgreSQL database.
func isPostgreSQL(s secret.Text) bool {
	return strings.HasPrefix(s.Reveal(), "postgres://") || strings.HasPrefix(s.Reveal(), "postgresql://")
}

// databaseName renders the address of a database as its host and its name. Anything else
// in it may be a password, or lead to one.
func databaseName(s secret.Text) string {
	u, err := url.Parse(s.Reveal())
	if err != nil {
		return s.String()
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host") // such as the folder of a unix socket
	}
	return "postgres://" + host + u.EscapedPath()
}
