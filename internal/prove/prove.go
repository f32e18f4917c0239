// Package prove ties tests to the numbered rules of the specification. A test that
// fails when a rule is broken says so with Rule; the acceptance table in
// docs/acceptance.md is generated from these calls, and the test run is checked for
// them, so a rule cannot be claimed by a test that did not run.
package prove

import "testing"

// Attr is the key under which Rule leaves its mark in the output of go test -json.
const Attr = "proves"

// Rule declares that the calling test proves the rules with these ids, such as
// AGN011-3.3-e. Ids are written as string literals: the table's generator reads the
// source.
func Rule(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		t.Attr(Attr, id)
	}
}
