package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Cost is money, in millionths of the unit that the prices are in.
type Cost int64

// CostOf returns a number of units as a Cost.
func CostOf(units float64) Cost { return Cost(math.Round(units * 1e6)) }

// Units returns the cost in the unit of the prices.
func (c Cost) Units() float64 { return float64(c) / 1e6 }

// Amount is what model calls and the tools between them take. As a limit, what they may
// take: its zero members limit nothing.
type Amount struct {
	Tokens    int64
	Cost      Cost
	ToolCalls int64
	Time      time.Duration
}

// Plus returns the sum of both.
func (a Amount) Plus(b Amount) Amount {
	return Amount{Tokens: a.Tokens + b.Tokens, Cost: a.Cost + b.Cost, ToolCalls: a.ToolCalls + b.ToolCalls, Time: a.Time + b.Time}
}

// Unit is a member of an Amount.
type Unit string

// The units, as they are told.
const (
	Tokens    Unit = "tokens"
	Money     Unit = "cost"
	ToolCalls Unit = "toolCalls"
	Time      Unit = "time"
)

// Units are all of them.
func Units() []Unit { return []Unit{Tokens, Money, ToolCalls, Time} }

// Of returns one member of the amount, as a plain number.
func (a Amount) Of(u Unit) int64 {
	switch u {
	case Tokens:
		return a.Tokens
	case Money:
		return int64(a.Cost)
	case ToolCalls:
		return a.ToolCalls
	}
	return int64(a.Time)
}

// reached returns the first unit in which a is used up, which is a limit.
func (a Amount) reached(spent Amount) (Unit, bool) {
	for _, u := range Units() {
		if most := a.Of(u); most > 0 && spent.Of(u) >= most {
			return u, true
		}
	}
	return "", false
}

// exceeded reports whether a, which is a limit, is gone over in any unit.
func (a Amount) exceeded(spent Amount) bool {
	for _, u := range Units() {
		if most := a.Of(u); most > 0 && spent.Of(u) > most {
			return true
		}
	}
	return false
}

func (a Amount) withoutTools() Amount {
	a.ToolCalls = 0
	return a
}

// in renders one member for people.
func (a Amount) in(u Unit) string {
	switch u {
	case Tokens:
		return fmt.Sprintf("%d tokens", a.Tokens)
	case Money:
		return "a cost of " + strconv.FormatFloat(a.Cost.Units(), 'f', -1, 64)
	case ToolCalls:
		return fmt.Sprintf("%d tool calls", a.ToolCalls)
	}
	return fmt.Sprintf("%s of running", a.Time)
}

// String renders what a limit limits; it is empty when that is nothing.
func (a Amount) String() string {
	var out []string
	for _, u := range Units() {
		if a.Of(u) > 0 {
			out = append(out, a.in(u))
		}
	}
	return strings.Join(out, ", ")
}

// Price is what a model takes for a million tokens.
type Price struct{ Input, CachedInput, Output float64 }

// Cost returns what a call that took u costs. It is rounded up: many small calls are not free.
func (p Price) Cost(u agent.Usage) Cost {
	cached := min(u.CachedTokens, u.InputTokens)
	return Cost(math.Ceil(float64(u.InputTokens-cached)*p.Input + float64(cached)*p.CachedInput + float64(u.OutputTokens)*p.Output))
}
