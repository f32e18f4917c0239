package main

import (
	"path/filepath"
	"testing"
)

// builtinGolden is where the golden requests of the built-in modes are recorded. After a
// change that is meant: go run ./cmd/aptix modes golden --out internal/mode/builtin/golden
const builtinGolden = "../../internal/mode/builtin/golden"

// TestGolden_BuiltinModes fails when the request of a built-in mode drifts, and says in
// which mode, from which line on, and what it was.
func TestGolden_BuiltinModes(t *testing.T) {
	now, err := goldenRequests(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	drifts, err := now.drift(filepath.FromSlash(builtinGolden))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drifts {
		t.Error(d)
	}
	if len(now) != 3 {
		t.Errorf("there are %d golden requests, want one for each of the 3 built-in modes", len(now))
	}
}
