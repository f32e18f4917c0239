package acceptance_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/acceptance"
)

func claim(rule, dir, name string) acceptance.Claim {
	return acceptance.Claim{Rule: rule, Test: acceptance.Test{Dir: dir, Name: name}}
}

func TestReadRules(t *testing.T) {
	const head = "## 1. One\n\n| Id | Kind/actor | Behaviour |\n|---|---|---|\n"
	tests := []struct {
		name, document string
		want           []acceptance.Rule // nil: an error
	}{
		{"two", head + "| A-1 | M/S | Does. |\n| A-2 | T | Tests. |\n", []acceptance.Rule{
			{Document: "1. One", ID: "A-1", Kind: "M/S", Text: "Does."},
			{Document: "1. One", ID: "A-2", Kind: "T", Text: "Tests."},
		}},
		{"no table", "nothing\n", nil},
		{"twice", head + "| A-1 | M/S | Does. |\n| A-1 | M/S | Does. |\n", nil},
		{"unknown kind", head + "| A-1 | must | Does. |\n", nil},
		{"a cell too few", head + "| A-1 | M/S |\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := acceptance.ReadRules(tt.document)
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("error = %v", err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestRule_Enforceable(t *testing.T) {
	want := map[string]bool{
		"M/S": true, "G/S": true, "T": true,
		"M/L": false, "M/C": false, "?/S": false, "?/L": false, "X/S": false, "X": false,
	}
	for kind, enforceable := range want {
		if got := (acceptance.Rule{Kind: kind}).Enforceable(); got != enforceable {
			t.Errorf("%s: Enforceable() = %t, want %t", kind, got, enforceable)
		}
	}
}

func TestReadReasons(t *testing.T) {
	const head = "| Id | Why no server can enforce it |\n|---|---|\n"
	tests := []struct {
		name, document string
		want           map[string]string // nil: an error
	}{
		{"one", head + "| A-1 | The model decides. |\n", map[string]string{"A-1": "The model decides."}},
		{"empty", head + "| A-1 | |\n", nil},
		{"twice", head + "| A-1 | x |\n| A-1 | y |\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := acceptance.ReadReasons(tt.document)
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("error = %v", err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	rules := []acceptance.Rule{
		{ID: "S", Kind: "M/S", Text: "Server does."},
		{ID: "L", Kind: "M/L", Text: "Model asks."},
	}
	complete := []acceptance.Claim{claim("S", "a", "TestS")}
	reasons := map[string]string{"L": "The model decides."}
	tests := []struct {
		name    string
		reasons map[string]string
		claims  []acceptance.Claim
		want    []string
	}{
		{"complete", reasons, complete, nil},
		{"a test stands for a reason", nil, append([]acceptance.Claim{claim("L", "a", "TestL")}, complete...), nil},
		{"no test", reasons, nil, []string{"S (M/S) has no test: Server does."}},
		{"no reason", nil, complete, []string{"L (M/L) has neither a test nor a reason in docs/unenforceable.md: Model asks."}},
		{"a reason does not stand for a test", map[string]string{"S": "hard", "L": "x"}, nil,
			[]string{"S (M/S) has a reason in docs/unenforceable.md, but a server can enforce it: a test is due"}},
		{"unknown rule in a test", reasons, append([]acceptance.Claim{claim("Z", "a", "TestZ")}, complete...),
			[]string{"a: TestZ proves Z, which is no rule of docs/rules.md"}},
		{"unknown rule with a reason", map[string]string{"L": "x", "Z": "y"}, complete,
			[]string{"docs/unenforceable.md gives a reason for Z, which is no rule of docs/rules.md"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(acceptance.Judge(rules, tt.reasons, tt.claims), tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestRender_ReadsBack(t *testing.T) {
	rules := []acceptance.Rule{
		{Document: "One", ID: "A-1", Kind: "M/S", Text: "Either | or."},
		{Document: "One", ID: "A-2", Kind: "M/L", Text: "Asks."},
		{Document: "Two", ID: "B-1", Kind: "M/S", Text: "Nobody yet."},
	}
	want := []acceptance.Claim{
		claim("A-1", "cmd/aptix", "TestScript/tour"), claim("A-1", "internal/a", "TestA"),
		claim("A-2", "internal/a", "TestAsks"),
	}
	document := acceptance.Render(rules, map[string]string{"A-2": "The model decides."}, want)
	got, err := acceptance.ReadTable(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("-got +want\n%s\n%s", diff, document)
	}
}

func TestReadTable_GarbledTest(t *testing.T) {
	const head = "| Id | Kind/actor | Rule | Proved by |\n|---|---|---|---|\n"
	for _, cell := range []string{"`TestX`", "`a: TestX"} {
		if claims, err := acceptance.ReadTable(head + "| A | M/S | x | " + cell + " |\n"); err == nil {
			t.Errorf("ReadTable(%s) = %v, want an error", cell, claims)
		}
	}
}
