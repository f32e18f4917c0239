package store_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func TestPage_Size(t *testing.T) {
	for limit, want := range map[int]int{0: 50, 1: 1, 199: 199, 200: 200, 201: 200, math.MaxInt: 200, -1: 1} {
		if got := (store.Page{Limit: limit}).Size(); got != want {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
}

func TestPage_AfterReadsItsOwnCursors(t *testing.T) {
	key, err := store.Page{Cursor: store.Cursor("list", "12", "s.1-_A")}.After("list", 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"12", "s.1-_A"}, key); diff != "" {
		t.Error(diff)
	}
	if key, err := (store.Page{}).After("list", 2); key != nil || err != nil {
		t.Errorf("without a cursor: got %v, %v", key, err)
	}
}

// FuzzPage_After holds row S-16 of docs/security.md.
func FuzzPage_After(f *testing.F) {
	for _, seed := range []string{"", "x", "%", store.Cursor("list", "1"), store.Cursor("other", "1", "2"), store.Cursor("list", "1", "2"),
		"bGlz\rdC80L00", // a line break, which base64 decoders skip
		store.Cursor("list", "1", "\x00"), store.Cursor("list", "1", "' OR 1=1"), store.Cursor("list", "", "\ufeff"), store.Cursor("liſt", "1", "2")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		key, err := store.Page{Cursor: cursor}.After("list", 2)
		if err != nil && agent.KindOf(err) != agent.KindInvalidRequest {
			t.Errorf("got %v, want an invalid request", err)
		}
		if err == nil && cursor != "" && store.Cursor("list", key...) != cursor {
			t.Errorf("%q was read as %q", cursor, key)
		}
		for _, part := range key {
			if !agent.ValidID(part) && len(part) <= 128 {
				t.Errorf("%q was read as %q, which holds what no key does", cursor, key)
			}
		}
	})
}
