package architecture

import (
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// mayConnect are the folders that make connections of their own, with the reason.
var mayConnect = map[string]string{
	"internal/outbound":       "here they are made",
	"internal/store/postgres": "the protocol of the database, to the address that the operator wrote",
	"client":                  "runs in programs of others, and connects to the server that they name",
	"bench":                   "looks how a server on this machine does; no part of the binary",
	"bench/drive":             "sends turns to a server on this machine; no part of the binary",
	"bench/floor":             "is measured against the server, and no part of the binary",
}

// TestConnections: nothing of the server connects to anything but through internal/outbound.
// It holds row S-10 of docs/security.md.
func TestConnections(t *testing.T) {
	tree := repository(t)
	tier, err := tiers(read(t, tree, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := connecting(tree)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, line := range found {
		name, _, _ := strings.Cut(line, ":")
		dir := path.Dir(name)
		used[dir] = true
		if tier[dir] != tests && mayConnect[dir] == "" {
			t.Errorf("%s; connections are made by internal/outbound", line)
		}
	}
	for dir, why := range mayConnect {
		if !used[dir] {
			t.Errorf("%s makes no connection any more; take its exception out (%s)", dir, why)
		}
	}
}

func TestConnecting_Finds(t *testing.T) {
	tree := fstest.MapFS{
		"a/a.go": {Data: []byte(`package a
import ("net"; web "net/http"; "crypto/tls")
var a = web.DefaultClient
func b() { _, _ = web.Get("x"); _ = &web.Transport{}; _, _ = net.Dial("tcp", "x"); _ = tls.Dialer{} }
var c, d, e = web.Client{}, &web.Client{Transport: t}, web.StatusOK
var f, _ = net.Listen("tcp", "x")
var g = client.Get("x")
var h web.Client
var i = new(web.Client)
var j *web.Client
`)},
		"a/a_test.go": {Data: []byte(`package a
import "net/http"
var z = http.DefaultClient
`)},
	}
	got, err := connecting(tree)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{"a/a.go: crypto/tls.Dialer", "a/a.go: net.Dial", "a/a.go: net/http.Client without a transport",
		"a/a.go: net/http.Client without a transport", "a/a.go: net/http.Client without a transport", "a/a.go: net/http.DefaultClient", "a/a.go: net/http.Get", "a/a.go: net/http.Transport"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
