package outbound

import (
	"errors"
	"strings"
	"testing"
)

func TestParseAllowlist_Refuses(t *testing.T) {
	for _, entry := range []string{
		"", " ", "http://hooks.internal", "hooks.internal:8443", "hooks.internal/x", "*.internal", "a b", "10.0.0.0/33", "10.0.0", "0x7f.1", "2130706433",
		"fe80::1%eth0", "häuser.example", ".internal", "a..b", strings.Repeat("a", 254),
	} {
		if _, err := ParseAllowlist([]string{"10.0.0.0/8", entry}); err == nil {
			t.Errorf("%q is taken", entry)
		}
	}
}

// TestPolicy_CheckURL holds row S-10 of docs/security.md.
func TestPolicy_CheckURL(t *testing.T) {
	p := Policy{Allow: allow(t, "hooks.internal", "10.1.0.0/16")}
	for _, c := range []struct {
		url     string
		ok      bool
		refused bool
	}{
		{"https://example.com/hook?x=1", true, false}, {"https://example.com:8443", true, false}, {"http://hooks.internal:9000/x", true, false}, {"https://10.1.2.3/", true, false},
		{"http://10.1.2.3/", true, false}, {"https://1.1.1.1/", true, false}, {"https://[2606:4700::1111]/", true, false},
		{"http://example.com/", false, true}, {"https://10.2.2.3/", false, true}, {"https://[::1]/", false, true}, {"https://0177.0.0.1/", false, true}, {"https://0x7f000001/", false, true},
		{"https://2130706433/", false, true}, {"https://127.1/", false, true}, {"https://169.254.169.254/latest", false, true}, {"https://[::ffff:a9fe:a9fe]/", false, true},
		{"", false, false}, {"example.com", false, false}, {"https:///x", false, false}, {"https:example.com", false, false}, {"ftp://example.com", false, false}, {"file:///etc/passwd", false, false},
		{"gopher://example.com", false, false}, {"https://user:pass@example.com/", false, false}, {"https://example.com@127.0.0.1/", false, false}, {"https://example.com/#x", false, false},
		{"https://exa mple.com", false, false}, {"https://[::1", false, false}, {"https://example.com\\@127.0.0.1/", false, false}, {"unix:///var/run/docker.sock", false, false},
	} {
		err := p.CheckURL(c.url)
		if (err == nil) != c.ok || errors.As(err, new(*RefusedError)) != c.refused {
			t.Errorf("%q: got %v, want ok %t, refused %t", c.url, err, c.ok, c.refused)
		}
	}
}

func TestRefusedError_NamesNoAddress(t *testing.T) {
	err := (&RefusedError{Host: "hooks.example", Why: whyPrivate}).Error()
	if want := `no connection to "hooks.example": it has an address that is not public; the operator can name it in outbound.allow`; err != want {
		t.Errorf("got %s", err)
	}
}
