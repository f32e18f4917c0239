package console

import (
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
)

func TestMoney(t *testing.T) {
	for units, want := range map[float64]string{0.000001: "0.000001", 0.001355: "0.001355", 0.0123: "0.0123", 0.5: "0.5000", 1: "1.00", 1234.567: "1234.57"} {
		if got := money(budget.CostOf(units)); got != want {
			t.Errorf("%v: got %s, want %s", units, got, want)
		}
	}
}

// Each call costs what the ledger charges for it; a model without a price costs nothing that
// is known.
func TestPriced(t *testing.T) {
	price := budget.Price{Input: 2, CachedInput: 1, Output: 10}
	usage := agent.Usage{InputTokens: 1001, CachedTokens: 1, OutputTokens: 7}
	for model, want := range map[string]budget.Cost{"known": 2 * price.Cost(usage), "unknown": 0} {
		c, v := Console{prices: map[string]budget.Price{"known": price}}, turnView{}
		for call := 1; call <= 2; call++ {
			c.add(&v, agent.Step{Kind: agent.StepAsked, Asked: &agent.Asked{Call: call, Canonical: `{"model":"` + model + `","input":[]}`}})
			c.add(&v, agent.Step{Kind: agent.StepAnswered, Answered: &agent.Answered{Call: call, Usage: usage}})
		}
		if v.Cost != want {
			t.Errorf("%s: got %d, want %d", model, v.Cost, want)
		}
	}
}
