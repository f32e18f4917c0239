package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// isRefused fails the test unless an error is a refusal by the policy.
func isRefused(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*RefusedError)) {
		t.Errorf("got %v, want a *RefusedError", err)
	}
}

// TestJudge_Addresses holds row S-10 of docs/security.md.
func TestJudge_Addresses(t *testing.T) {
	strict := newGuard(Policy{})
	for _, c := range []struct {
		ip     string
		public bool
		never  bool // not even when it is configured or allowed
	}{
		{"1.1.1.1", true, false}, {"2606:4700:4700::1111", true, false}, {"64:ff9b::101:101", true, false}, {"::ffff:1.1.1.1", true, false},
		{"127.0.0.1", false, false}, {"127.8.9.1", false, false}, {"::1", false, false}, {"0.0.0.0", false, false}, {"::", false, false},
		{"10.0.0.1", false, false}, {"172.16.0.1", false, false}, {"172.31.255.255", false, false}, {"192.168.1.1", false, false},
		{"100.64.0.1", false, false}, {"198.18.0.1", false, false}, {"192.0.2.1", false, false}, {"198.51.100.7", false, false}, {"203.0.113.9", false, false},
		{"224.0.0.1", false, false}, {"240.0.0.1", false, false}, {"255.255.255.255", false, false}, {"192.88.99.1", false, false},
		{"fc00::1", false, false}, {"fd12:3456::1", false, false}, {"fe80::1", false, false}, {"fe80::1%eth0", false, false}, {"ff02::1", false, false},
		{"fec0::1", false, false}, {"2001:db8::1", false, false}, {"3fff::1", false, false}, {"100::1", false, false}, {"2001::1", false, false},
		{"::ffff:127.0.0.1", false, false}, {"::ffff:10.0.0.1", false, false}, {"::127.0.0.1", false, false}, {"64:ff9b::7f00:1", false, false},
		{"64:ff9b::a00:1", false, false}, {"64:ff9b:1::a00:1", false, false}, {"2002:7f00:1::", false, false}, {"2002:a00:1::1", false, false},
		{"169.254.169.254", false, true}, {"169.254.170.2", false, true}, {"169.254.1.1", false, true}, {"100.100.100.200", false, true},
		{"168.63.129.16", false, true}, {"192.0.0.192", false, true}, {"fd00:ec2::254", false, true}, {"fd00:ec2::23", false, true}, {"fd20:ce::254", false, true},
		{"::ffff:169.254.169.254", false, true}, {"::a9fe:a9fe", false, true}, {"64:ff9b::a9fe:a9fe", false, true}, {"64:ff9b:1::a9fe:a9fe", false, true},
		{"2002:a9fe:a9fe::1", false, true}, {"::ffff:168.63.129.16", false, true}, {"64:ff9b::a83f:8110", false, true},
	} {
		ip := netip.MustParseAddr(c.ip)
		if err := strict.judge("h", ip, false); (err == nil) != c.public {
			t.Errorf("%s: got %v, want public: %t", c.ip, err, c.public)
		}
		if err := strict.judge("h", ip, true); (err != nil) != c.never {
			t.Errorf("%s, configured: got %v, want never: %t", c.ip, err, c.never)
		}
		if !c.public {
			all := newGuard(Policy{Allow: allow(t, "0.0.0.0/0", "::/0", "h")})
			if err := all.judge("h", ip, false); (err != nil) != c.never {
				t.Errorf("%s, allowed: got %v, want never: %t", c.ip, err, c.never)
			}
		}
	}
}

func TestJudge_OwnAddressIsNotPublic(t *testing.T) {
	g := newGuard(Policy{})
	g.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(8, 8, 8, 8), Mask: net.CIDRMask(24, 32)}}, nil
	}
	isRefused(t, g.judge("h", netip.MustParseAddr("8.8.8.8"), false))
	if err := g.judge("h", netip.MustParseAddr("8.8.8.9"), false); err != nil {
		t.Errorf("a neighbour is refused: %v", err)
	}
	g.own = func() ([]net.Addr, error) { return nil, errors.New("unknown") }
	isRefused(t, g.judge("h", netip.MustParseAddr("8.8.8.9"), false))
}

// Whatever way it is written, the loopback is not reached.
// It holds row S-10 of docs/security.md.
func TestTransport_SpellingsOfTheLoopback(t *testing.T) {
	wire := newTripwire(t)
	by := NewTransport(Policy{})
	defer by.CloseIdleConnections()
	for _, host := range []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7F.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0", "00000.0",
		"localhost", "localhost.", "LOCALHOST", "127.0.0.1.", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:0:0:1]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1%25lo]",
	} {
		for _, scheme := range []string{"http", "https"} {
			if res, err := get(t, by, scheme+"://"+host+":"+wire.port()+"/"); err == nil {
				t.Errorf("%s://%s answers %s", scheme, host, res.Status)
			}
		}
	}
	if n := wire.connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestTransport_NameThatIsRebound holds row S-10 of docs/security.md.
func TestTransport_NameThatIsRebound(t *testing.T) {
	wire := newTripwire(t)
	var asked atomic.Int64
	// Whoever looks first sees a public address, whoever looks again the loopback.
	resolver := nameServer(t, func(string) []netip.Addr {
		if asked.Add(1) <= 2 { // A and AAAA of one look
			return []netip.Addr{netip.MustParseAddr("1.1.1.1")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	found, err := resolver.LookupHost(t.Context(), "rebound.example")
	if err != nil || len(found) != 1 || found[0] != "1.1.1.1" {
		t.Fatalf("the check before: got %v, %v", found, err)
	}
	by := NewTransport(Policy{})
	by.dialer.Resolver = resolver
	_, err = get(t, by, "https://rebound.example:"+wire.port()+"/")
	isRefused(t, err)
	if asked.Load() < 3 {
		t.Error("the name was not looked up again")
	}
	if n := wire.connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestTransport_NameWithSeveralAddresses(t *testing.T) {
	wire := newTripwire(t)
	by := NewTransport(Policy{})
	by.dialer.Resolver = nameServer(t, func(string) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("169.254.169.254")}
	})
	_, err := get(t, by, "https://several.example:"+wire.port()+"/")
	isRefused(t, err)
	if n := wire.connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestTransport_ConfiguredIsThatHostAndPortOnly holds row S-10 of docs/security.md.
func TestTransport_ConfiguredIsThatHostAndPortOnly(t *testing.T) {
	mine, other := newTripwire(t), newTripwire(t)
	by := NewTransport(Policy{Configured: []string{"http://OLLAMA.example:" + mine.port() + "/v1", "http://metadata.example"}})
	defer by.CloseIdleConnections()
	by.dialer.Resolver = nameServer(t, func(name string) []netip.Addr {
		if name == "metadata.example" {
			return []netip.Addr{netip.MustParseAddr("169.254.169.254")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	res, err := get(t, by, "http://ollama.example:"+mine.port()+"/v1/models")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the configured one: %v", err)
	}
	for _, elsewhere := range []string{
		"http://ollama.example:" + other.port(), "https://ollama.example:" + other.port(), "http://127.0.0.1:" + mine.port(),
		"https://other.example:" + mine.port(), "http://metadata.example/latest", "https://169.254.169.254/",
	} {
		_, err := get(t, by, elsewhere)
		isRefused(t, err)
	}
	if n := other.connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestTransport_Redirects holds row S-10 of docs/security.md.
func TestTransport_Redirects(t *testing.T) {
	wire := newTripwire(t)
	web := httptest.NewServer(http.RedirectHandler(wire.URL+"/secret", http.StatusTemporaryRedirect))
	defer web.Close()
	p := Policy{Configured: []string{web.URL}}

	following := NewTransport(p)
	defer following.CloseIdleConnections()
	_, err := get(t, following, web.URL)
	isRefused(t, err)

	client := NewClient(p)
	defer client.CloseIdleConnections()
	res, err := client.Get(web.URL)
	if err != nil || res.StatusCode != http.StatusTemporaryRedirect {
		t.Fatalf("our client: got %v, %v, want the redirect itself", res, err)
	}
	_ = res.Body.Close()
	if n := wire.connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestTransport_AllowedByName(t *testing.T) {
	wire := newTripwire(t)
	names := nameServer(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for _, c := range []struct {
		entry, url string
		ok         bool
	}{
		{"hooks.internal", "http://hooks.internal", true},
		{"Hooks.Internal.", "http://hooks.internal", true},
		{"hooks.internal", "http://x.hooks.internal", false},
		{"127.0.0.0/8", "http://127.0.0.1", true},
		{"127.0.0.1", "http://127.0.0.1", true},
		{"127.0.0.2", "http://127.0.0.1", false},
		{"127.0.0.0/8", "http://hooks.internal", false}, // a network has no name that http may be spoken to
	} {
		by := NewTransport(Policy{Allow: allow(t, c.entry)})
		by.dialer.Resolver = names
		res, err := get(t, by, c.url+":"+wire.port())
		if (err == nil && res.StatusCode == http.StatusOK) != c.ok {
			t.Errorf("%s allowed, %s: got %v, want it to pass: %t", c.entry, c.url, err, c.ok)
		}
		by.CloseIdleConnections()
	}
}

// The proxy of the environment is for what the operator named; what others give is
// connected to directly, where its address can be judged.
func TestTransport_Proxy(t *testing.T) {
	proxy := newTripwire(t)
	named := func(entry string) *Transport {
		by := NewTransport(Policy{Configured: []string{"http://model.example/v1"}, Allow: allow(t, entry)})
		by.environment = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
		by.dialer.Resolver = nameServer(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.255.255.1")} })
		t.Cleanup(by.CloseIdleConnections)
		return by
	}
	for _, through := range []string{"http://model.example/v1/responses", "http://hooks.internal/"} {
		if res, err := get(t, named("hooks.internal"), through); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %v", through, err)
		}
	}
	before := proxy.connects.Load()
	for _, direct := range []string{"https://given.example/", "https://127.0.0.1:" + proxy.port(), "http://model.example:81/"} {
		_, err := get(t, named("hooks.internal"), direct)
		isRefused(t, err)
	}
	if n := proxy.connects.Load() - before; n != 0 {
		t.Errorf("%d connections to the proxy were made", n)
	}
}
