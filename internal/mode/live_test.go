package mode

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

// edition is a catalogue that differs from others of another number.
func edition(t *testing.T, n int) *Catalog {
	t.Helper()
	c, err := Load(files("general.yaml", general+fmt.Sprintf("instructions: [Rule %d.]\n", n)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLive_RemembersWhatTurnsBeganWith(t *testing.T) {
	first := edition(t, 0)
	l := NewLive(first)
	for n := 1; n < keptCatalogs; n++ {
		l.Replace(edition(t, n))
	}
	if got, ok := l.Recall(first.Hash()); !ok || got != first {
		t.Errorf("the catalogue of %d reloads ago is gone", keptCatalogs-1)
	}
	l.Replace(edition(t, keptCatalogs))
	if _, ok := l.Recall(first.Hash()); ok {
		t.Error("every catalogue there ever was is kept")
	}
	if got := l.Current(); got.Hash() != edition(t, keptCatalogs).Hash() {
		t.Errorf("in force is %s", got.Default().Instructions)
	}
}

// TestLive_TheSameAgainTakesNoPlace reloads the same files over and over: turns of before
// must not be forgotten over it.
func TestLive_TheSameAgainTakesNoPlace(t *testing.T) {
	first := edition(t, 0)
	l := NewLive(first)
	for range 2 * keptCatalogs {
		l.Replace(edition(t, 1))
	}
	if _, ok := l.Recall(first.Hash()); !ok {
		t.Error("a catalogue was pushed out by copies of one other")
	}
}

func TestCatalog_HashTellsCatalogsApart(t *testing.T) {
	if a, b := edition(t, 1).Hash(), edition(t, 2).Hash(); a == b || len(a) != 16 {
		t.Errorf("hashes %q and %q", a, b)
	}
	if a, b := edition(t, 1).Hash(), edition(t, 1).Hash(); a != b {
		t.Errorf("the same modes have the hashes %s and %s", a, b)
	}
	commented, err := Load(files("general.yaml", "# A comment.\n"+general+"instructions:\n  - Rule 1.\n"))
	if err != nil {
		t.Fatal(err)
	}
	if commented.Hash() != edition(t, 1).Hash() {
		t.Error("a comment makes another catalogue")
	}
}

func TestLive_ATurnSeesItsOwnModes(t *testing.T) {
	both, err := Load(files("general.yaml", general, "b.yaml", second))
	if err != nil {
		t.Fatal(err)
	}
	l := NewLive(both)
	turn := Within(t.Context(), both)
	l.Replace(edition(t, 1))
	keys := func(ctx context.Context) string {
		all, err := l.GetAllModes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, s := range all {
			keys = append(keys, string(s.Key))
		}
		return strings.Join(keys, " ")
	}
	if got := keys(turn); got != "general second" {
		t.Errorf("the turn sees %s", got)
	}
	if got := keys(t.Context()); got != "general" {
		t.Errorf("others see %s", got)
	}
}

func TestCatalog_Changed(t *testing.T) {
	one, err := Load(files("general.yaml", general, "b.yaml", second))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Load(files("general.yaml", general+"version: v2\n", "b.yaml", second))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"general"}, one.Changed(two)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// TestLive_ReplacedWhileItIsRead is for the race detector: whoever reads gets one
// catalogue, whole.
func TestLive_ReplacedWhileItIsRead(t *testing.T) {
	editions := []*Catalog{edition(t, 0), edition(t, 1)}
	l := NewLive(editions[0])
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				c := l.Current()
				if got, ok := l.Recall(c.Hash()); !ok || got.Hash() != c.Hash() {
					t.Error("the catalogue in force is not remembered")
				}
			}
		})
	}
	for i := range 1000 {
		l.Replace(editions[i%2])
	}
	readers.Wait()
}

func TestCatalog_Give(t *testing.T) {
	c, err := Load(files("general.yaml", general+"tools: [agent_list_modes]\n"))
	if err != nil {
		t.Fatal(err)
	}
	given, err := c.Give(map[agent.ModeKey][]string{"general": {"own", "agent_list_modes"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(given.Default().Tools, []string{"agent_list_modes", "own"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if len(c.Default().Tools) != 1 || c.Hash() == given.Hash() {
		t.Errorf("the catalogue that was asked changed, or has the same hash as another")
	}
	if same, err := c.Give(nil); err != nil || same.Hash() != c.Hash() {
		t.Errorf("nothing given: %v", err)
	}
	if _, err := c.Give(map[agent.ModeKey][]string{"nowhere": {"own"}}); err == nil || !strings.Contains(err.Error(), "general") {
		t.Errorf("given to a mode that there is not: %v", err)
	}
}
