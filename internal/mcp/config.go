package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/aptixhq/aptix/internal/secret"
)

// ServerConfig says how one server is reached and what of it is used: by a command or
// under a URL.
type ServerConfig struct {
	// Name begins the names of the server's tools.
	Name string
	// Command and Args start a local server, in the folder Dir, with the variables of
	// this process that Env names; see baseEnv for those that it always has.
	Command string
	Args    []string
	Env     []string
	Dir     string
	// URL is where a remote server is; Headers go with each request. Plain lets http be
	// spoken to one that is not on this machine.
	URL     string
	Headers map[string]secret.Text
	Plain   bool
	// Allow are the tools that may be used, by their own names, which may be patterns;
	// all when empty. Deny takes tools out of them.
	Allow []string
	Deny  []string
	// Idempotent are the tools whose calls may run again when a crash left their outcome
	// unknown. What a server says of itself is not relied on.
	Idempotent []string
	// Timeout bounds a call; default 60 s. StartTimeout bounds the start of the server and
	// the reading of its list; default 30 s.
	Timeout      time.Duration
	StartTimeout time.Duration
	// Recheck is how old the last look at the server's list may be when a call is sent;
	// default 1 min.
	Recheck time.Duration
	// MaxBytes bounds one message of the server; default 8 MiB.
	MaxBytes int
	// Concurrency is how many calls may be under way at once; default 16.
	Concurrency int
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.StartTimeout = cmp.Or(c.StartTimeout, 30*time.Second)
	c.Recheck = cmp.Or(c.Recheck, time.Minute)
	c.MaxBytes = cmp.Or(c.MaxBytes, 8<<20)
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	return c
}

// serverName is what a server may be called: a name of lower case that has no separator
// in it, so that the names of two servers' tools cannot meet.
var serverName = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// maxServerName leaves the tools room for names of their own.
const maxServerName = 32

// Problems returns all that is wrong with the configuration of servers, each with the
// place where it stands, such as servers[0].name.
func Problems(servers []ServerConfig) []string {
	var out []string
	names := map[string]bool{}
	for i, c := range servers {
		add := func(member, format string, args ...any) {
			out = append(out, fmt.Sprintf("servers[%d].%s: %s", i, member, fmt.Sprintf(format, args...)))
		}
		switch {
		case !serverName.MatchString(c.Name) || len(c.Name) > maxServerName:
			add("name", "want 1 to %d characters of a-z and 0-9, parts joined by one - or _, beginning with a letter; not %q", maxServerName, c.Name)
		case c.Name == "agent":
			add("name", "agent is kept for tools of the server itself; choose another name")
		case names[folded(c.Name)]:
			add("name", "%q is that of another server, or reads like it; every server has its own", c.Name)
		}
		names[folded(c.Name)] = true
		c.problems(add)
	}
	return out
}

// problems returns what is wrong with the rest of a server's configuration.
func (c ServerConfig) problems(add func(member, format string, args ...any)) {
	switch {
	case c.Command == "" && c.URL == "":
		add("command", "want a command or a url")
	case c.Command != "" && c.URL != "":
		add("url", "want a command or a url, not both")
	case c.URL != "":
		if err := c.checkURL(); err != nil {
			add("url", "%v", err)
		}
	}
	if c.Command == "" && (len(c.Args) > 0 || len(c.Env) > 0 || c.Dir != "") {
		add("command", "args, env and dir belong to a command")
	}
	if c.URL == "" && len(c.Headers) > 0 {
		add("headers", "headers belong to a url")
	}
	for member, patterns := range map[string][]string{"tools.allow": c.Allow, "tools.deny": c.Deny, "tools.idempotent": c.Idempotent} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				add(member, "%q is not the name of a tool, and not a pattern", p)
			}
		}
	}
	for member, negative := range map[string]bool{"timeout": c.Timeout < 0, "startTimeout": c.StartTimeout < 0,
		"maxBytes": c.MaxBytes < 0, "concurrency": c.Concurrency < 0} {
		if negative {
			add(member, "must not be negative; leave it out for the default")
		}
	}
}

// checkURL refuses addresses over which what is said could be read on the way.
func (c ServerConfig) checkURL() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("want https://, or http:// for this machine")
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("want an address only; what the server must know of us goes into headers")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && !c.Plain && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return errors.New("http:// is for this machine only, and for hosts that outbound.allow names; use https://")
	}
	return nil
}

// uses reports whether the configuration lets a tool be used.
func (c ServerConfig) uses(tool string) bool {
	return (len(c.Allow) == 0 || matches(c.Allow, tool)) && !matches(c.Deny, tool)
}

func matches(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, tool)
		return ok && err == nil
	})
}

// Where names the server for people: its whole command, or its address.
func (c ServerConfig) Where() string {
	if c.URL != "" {
		return c.URL
	}
	return commandLine(append([]string{c.Command}, c.Args...))
}
