package budget

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

// Without a limit there is nothing, and nothing does nothing: a store that were asked would
// have no place to be asked from.
func TestNew_NothingWithoutALimit(t *testing.T) {
	for name, plans := range map[string]Plans{
		"empty":               {},
		"prices alone":        {Prices: map[string]Price{"m": {Input: 1}}},
		"an unlimited tenant": {Organisations: map[agent.OrgID]Plan{"acme": {}}},
	} {
		k, err := New(Config{Plans: plans})
		if k != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
		key := agent.TurnKey{Org: "acme", Session: "s", Turn: "t"}
		a := k.Open(Run{Key: key, Model: "m", Resumed: true})
		if a != nil || k.Admit(t.Context(), key) != nil || a.Reserve(t.Context(), 1) != nil || a.Charge(t.Context(), agent.Usage{}, 1) != nil {
			t.Errorf("%s: something is limited", name)
		}
		a.BrokenOff(t.Context(), 1)
		k.Drop(t.Context(), key)
		if s, err := k.Standings(t.Context(), "acme"); s != nil || err != nil {
			t.Errorf("%s: budgets %v, %v", name, s, err)
		}
	}
	if _, err := New(Config{Plans: Plans{Default: Plan{Turn: Amount{Tokens: 1}}}, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a keeper without a ledger is no keeper")
	}
}

// An organisation without limits of its own is not counted, beside others that are.
func TestOpen_UnlimitedOrganisation(t *testing.T) {
	k := &Keeper{Config: Config{Plans: Plans{Default: Plan{Turn: Amount{Tokens: 1}}, Organisations: map[agent.OrgID]Plan{"free": {}}}}}
	key := agent.TurnKey{Org: "free", Session: "s", Turn: "t"}
	if k.Open(Run{Key: key, Model: "m"}) != nil {
		t.Error("it has an account")
	}
}

func TestBudgets_PeriodsAreUTC(t *testing.T) {
	all := Plan{Turn: Amount{Tokens: 1}, Session: Amount{Tokens: 2}, Day: Amount{Tokens: 3}, Month: Amount{Tokens: 4}}
	at := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	west := time.FixedZone("west", -8*3600)
	for name, tt := range map[string]struct {
		now            time.Time
		day, month     string
		dayEnd, monEnd time.Time
	}{
		"the end of a year":  {time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), "2026-12-31", "2026-12", at(2027, 1, 1), at(2027, 1, 1)},
		"a leap day":         {time.Date(2028, 2, 28, 12, 0, 0, 0, time.UTC), "2028-02-28", "2028-02", at(2028, 2, 29), at(2028, 3, 1)},
		"another day in UTC": {time.Date(2026, 1, 31, 20, 0, 0, 0, west), "2026-02-01", "2026-02", at(2026, 2, 2), at(2026, 3, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			key := agent.TurnKey{Org: "acme", Session: "s", Turn: "t"}
			want := []Budget{
				{OfMonth, Scope{Period: tt.month}, all.Month, tt.monEnd},
				{OfDay, Scope{Period: tt.day}, all.Day, tt.dayEnd},
				{OfSession, Scope{Session: "s"}, all.Session, time.Time{}},
				{OfTurn, Scope{Session: "s", Turn: "t"}, all.Turn, time.Time{}},
			}
			if diff := cmp.Diff(want, all.budgets(key, tt.now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrice_Cost(t *testing.T) {
	p := Price{Input: 2, CachedInput: 0.5, Output: 10}
	for _, tt := range []struct {
		usage agent.Usage
		want  float64
	}{
		{agent.Usage{InputTokens: 1e6}, 2},
		{agent.Usage{InputTokens: 1e6, CachedTokens: 1e6}, 0.5},
		{agent.Usage{InputTokens: 1e6, CachedTokens: 5e6}, 0.5}, // no more is cached than there is
		{agent.Usage{OutputTokens: 1e6, ReasoningTokens: 1e6}, 10},
		{agent.Usage{InputTokens: 3, CachedTokens: 1, OutputTokens: 1}, 0.000015}, // 14.5 millionths, rounded up
		{agent.Usage{}, 0},
	} {
		if got := p.Cost(tt.usage).Units(); got != tt.want {
			t.Errorf("%+v costs %v, want %v", tt.usage, got, tt.want)
		}
	}
}

func TestAmount_String(t *testing.T) {
	for want, a := range map[string]Amount{
		"": {}, "7 tokens": {Tokens: 7}, "a cost of 0.25, 3 tool calls, 1m30s of running": {Cost: CostOf(0.25), ToolCalls: 3, Time: 90 * time.Second},
	} {
		if got := a.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
