package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestCheck(t *testing.T) {
	const (
		table = "| Id | Kind/actor | Rule | Proved by |\n|---|---|---|---|\n| R-1 | M/S | Does. | `internal/a: TestA` |\n"
		good  = `{"Action":"attr","Package":"m/internal/a","Test":"TestA","Key":"proves","Value":"R-1"}
{"Action":"pass","Package":"m/internal/a","Test":"TestA"}
{"Action":"pass","Package":"m/internal/a"}
`
		failed = good + `{"Action":"fail","Package":"m/internal/a","Test":"TestB"}` + "\n"
		skip   = good + `{"Action":"skip","Package":"m/internal/a","Test":"TestB"}` + "\n"
		warned = good + `{"Action":"output","Package":"m/internal/a","Test":"TestA","Output":"    a_test.go:1: WARNING: no schema\n"}` + "\n"
	)
	tests := []struct {
		name, table, output string
		strict, ok          bool
		says                string
	}{
		{"good", table, good, true, true, "1 of the 1 claims in docs/acceptance.md are borne out by this run\n1 passed, 0 failed, 0 skipped\n"},
		{"a failed test", table, failed, false, false, "1 passed, 1 failed, 0 skipped\n"},
		{"a skipped test", table, skip, false, true, "SKIPPED  m/internal/a TestB"},
		{"a skipped test, strictly", table, skip, true, false, "SKIPPED  m/internal/a TestB"},
		{"a warning", table, warned, false, true, "WARNING  no schema\n"},
		{"a warning, strictly", table, warned, true, false, "WARNING  no schema\n"},
		{"nothing ran", table, "", false, false, "NOT PROVED  internal/a: TestA did not run, and is to prove R-1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var says strings.Builder
			ok, err := check(&says, repository(tt.table), strings.NewReader(tt.output), tt.strict)
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok || !strings.Contains(says.String(), tt.says) {
				t.Errorf("check() = %t, want %t; it says\n%swant\n%s", ok, tt.ok, &says, tt.says)
			}
		})
	}
}

func TestCheck_NothingToCheck(t *testing.T) {
	if ok, err := check(&strings.Builder{}, repository("# Acceptance\n"), strings.NewReader(""), false); err == nil {
		t.Errorf("check() = %t with an empty table, want an error", ok)
	}
}

func repository(table string) fstest.MapFS {
	return fstest.MapFS{
		"go.mod":             {Data: []byte("module m\n")},
		"docs/acceptance.md": {Data: []byte(table)},
	}
}
