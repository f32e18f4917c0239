package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
)

// Budgets bound what turns spend. Nothing is bounded that is not named.
type Budgets struct {
	Turn         Amount  `koanf:"turn"`
	Session      Amount  `koanf:"session"`
	Organisation Periods `koanf:"organisation"`
	// AnswerTokens is how many tokens one answer of a model may have at most. Calls that
	// run side by side are bounded by it; see docs/limits.md.
	AnswerTokens *int64 `koanf:"answerTokens"`
}

// Periods are what an organisation may spend in a day and in a month, in UTC.
type Periods struct {
	Day   Amount `koanf:"day"`
	Month Amount `koanf:"month"`
}

// Amount is what may be spent. A member that is nil says nothing, 0 is no limit.
type Amount struct {
	Tokens    *int64         `koanf:"tokens"`
	Cost      *float64       `koanf:"cost"`
	ToolCalls *int64         `koanf:"toolCalls"`
	Time      *time.Duration `koanf:"time"`
}

// Price is what a model takes for a million tokens, in whatever unit the costs are in.
type Price struct {
	Input float64 `koanf:"input"`
	// CachedInput is that of input which the provider has in its cache; Input when nil.
	CachedInput *float64 `koanf:"cachedInput"`
	Output      float64  `koanf:"output"`
}

func (a Amount) over(below Amount) Amount {
	return Amount{Tokens: first(a.Tokens, below.Tokens), Cost: first(a.Cost, below.Cost),
		ToolCalls: first(a.ToolCalls, below.ToolCalls), Time: first(a.Time, below.Time)}
}

func (a Amount) limit() budget.Amount {
	return budget.Amount{Tokens: of(a.Tokens), Cost: budget.CostOf(of(a.Cost)), ToolCalls: of(a.ToolCalls), Time: of(a.Time)}
}

func (b Budgets) over(below Budgets) Budgets {
	return Budgets{
		Turn: b.Turn.over(below.Turn), Session: b.Session.over(below.Session),
		Organisation: Periods{Day: b.Organisation.Day.over(below.Organisation.Day), Month: b.Organisation.Month.over(below.Organisation.Month)},
	}
}

func (b Budgets) plan() budget.Plan {
	return budget.Plan{Turn: b.Turn.limit(), Session: b.Session.limit(), Day: b.Organisation.Day.limit(), Month: b.Organisation.Month.limit()}
}

// BudgetPlans returns the budgets of every organisation, and the prices.
func (c Config) BudgetPlans() budget.Plans {
	p := budget.Plans{Default: c.Budgets.plan(), Organisations: map[agent.OrgID]budget.Plan{},
		Prices: map[string]budget.Price{}, Answer: of(c.Budgets.AnswerTokens)}
	for name, o := range c.Organisations {
		p.Organisations[agent.OrgID(name)] = o.Budgets.over(c.Budgets).plan()
	}
	for model, price := range c.Prices {
		cached := price.Input
		if price.CachedInput != nil {
			cached = *price.CachedInput
		}
		p.Prices[model] = budget.Price{Input: price.Input, CachedInput: cached, Output: price.Output}
	}
	return p
}

// Models returns the models that sessions may use.
func (c Config) Models() []string {
	var out []string
	for _, a := range c.AgentContexts {
		for _, cc := range a.ConversationContexts {
			name := cc.Model
			if name == "" {
				name = c.Model
			}
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// spendingProblems returns what is wrong with quotas, budgets and prices.
func (c Config) spendingProblems() Problems {
	p := append(c.Limits.Quotas.problems("limits"), c.Budgets.problems("budgets")...)
	for _, name := range slices.Sorted(maps.Keys(c.Organisations)) {
		at := "organisations." + name
		if !agent.ValidID(name) {
			p = append(p, at+": want 1 to 128 characters of A-Z a-z 0-9 _ . -")
		}
		o := c.Organisations[name]
		p = append(p, o.Limits.problems(at+".limits")...)
		p = append(p, o.Budgets.problems(at+".budgets")...)
		if o.Budgets.AnswerTokens != nil {
			p = append(p, at+".budgets.answerTokens: is the same for all organisations; set budgets.answerTokens")
		}
	}
	for _, model := range slices.Sorted(maps.Keys(c.Prices)) {
		price := c.Prices[model]
		if !(price.Input >= 0 && price.Output >= 0 && of(price.CachedInput) >= 0) {
			p = append(p, "prices."+model+": must not be negative")
		}
	}
	if !c.BudgetPlans().Costs() {
		return p
	}
	for _, model := range c.Models() {
		if _, ok := c.Prices[model]; !ok {
			p = append(p, fmt.Sprintf("prices: there is a budget of cost, and model %q has no price; add it, or 0 for one that is free", model))
		}
	}
	return p
}

func (b Budgets) problems(at string) Problems {
	var p Problems
	for _, v := range []struct {
		name string
		Amount
	}{
		{"turn", b.Turn}, {"session", b.Session}, {"organisation.day", b.Organisation.Day}, {"organisation.month", b.Organisation.Month},
	} {
		if of(v.Tokens) < 0 || !(of(v.Cost) >= 0) || of(v.ToolCalls) < 0 || of(v.Time) < 0 {
			p = append(p, fmt.Sprintf("%s.%s: must not be negative; 0 is no limit", at, v.name))
		}
	}
	if b.AnswerTokens != nil && *b.AnswerTokens <= 0 {
		p = append(p, at+".answerTokens: must be more than zero")
	}
	return p
}

// spendingSettings are the quotas and budgets that are set.
func spendingSettings() []setting {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	return []setting{
		{key: "limits.streams", show: func(c Config) string { return number(c.Limits.limits().Streams) }},
		{key: "limits.requests", show: func(c Config) string {
			r := c.Limits.limits().Requests
			if r.PerSecond == 0 {
				return ""
			}
			return fmt.Sprintf("%g a second, %d at once", r.PerSecond, r.Burst)
		}},
		{key: "limits.turns", show: func(c Config) string { return number(c.Limits.limits().Turns) }},
		{key: "limits.sessions", show: func(c Config) string { return number(c.Limits.limits().Sessions) }},
		{key: "budgets.turn", show: func(c Config) string { return c.Budgets.plan().Turn.String() }},
		{key: "budgets.session", show: func(c Config) string { return c.Budgets.plan().Session.String() }},
		{key: "budgets.organisation.day", show: func(c Config) string { return c.Budgets.plan().Day.String() }},
		{key: "budgets.organisation.month", show: func(c Config) string { return c.Budgets.plan().Month.String() }},
		{key: "organisations", show: func(c Config) string {
			return strings.Join(slices.Sorted(maps.Keys(c.Organisations)), ", ")
		}},
	}
}
