package agent

import (
	"testing"
)

// TestExposure_Asks holds row S-20 of docs/security.md.
func TestExposure_Asks(t *testing.T) {
	e := Exposure{Private: []string{"files__*", "db"}, Untrusted: []string{"web__*"}, Outgoing: []string{"mail__send", "web__post"}}
	for _, test := range []struct {
		name string
		of   Exposure
		tool string
		met  []string
		want bool
	}{
		{"all three", e, "mail__send", []string{"web__get", "files__read"}, true},
		{"in the other order, among others", e, "mail__send", []string{"db", "clock", "web__get"}, true},
		{"an untrusted tool that carries something out", e, "web__post", []string{"web__get", "db"}, true},
		{"nothing private", e, "mail__send", []string{"web__get"}, false},
		{"nothing untrusted", e, "mail__send", []string{"db"}, false},
		{"nothing goes out", e, "clock", []string{"web__get", "db"}, false},
		{"nothing met", e, "web__post", nil, false},
		{"no list of what is private", Exposure{Untrusted: e.Untrusted, Outgoing: e.Outgoing}, "mail__send", []string{"web__get", "db"}, false},
		{"one tool is both", Exposure{Private: []string{"mail__*"}, Untrusted: []string{"mail__*"}, Outgoing: []string{"mail__*"}}, "mail__send", []string{"mail__read"}, true},
	} {
		for cut := range len(test.met) + 1 {
			if got := test.of.Asks(test.tool, test.met[:cut], test.met[cut:]); got != test.want {
				t.Errorf("%s, %d of them in earlier turns: got %t", test.name, cut, got)
			}
		}
	}
}

func TestExposure_Problems(t *testing.T) {
	for _, test := range []struct {
		e    Exposure
		want int
	}{
		{Exposure{}, 0},
		{Exposure{Private: []string{"a"}, Untrusted: []string{"b*"}, Outgoing: []string{"c"}}, 0},
		{Exposure{Private: []string{"a"}}, 1},
		{Exposure{Private: []string{""}, Untrusted: []string{"[a"}, Outgoing: []string{"c"}}, 2},
	} {
		if got := test.e.Problems(); len(got) != test.want {
			t.Errorf("%+v: got %q", test.e, got)
		}
	}
}
