package client

import (
	"context"
	"net/http"
	"time"
)

// Spending is what the organisation of the caller may spend, and what it has spent. Its budgets
// are empty where nothing is limited.
type Spending struct {
	Org     string   `json:"org"`
	Budgets []Budget `json:"budgets"`
}

// Budget is one limit.
type Budget struct {
	// Of is turn or session, for each of them, or day or month, in UTC, for all turns of
	// the organisation together.
	Of string `json:"of"`
	// Unit is tokens, cost, toolCalls or seconds.
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit"`
	// Spent, Left and ResetsAt are set for a day and a month. Left may be less than nothing,
	// by one model call.
	Spent    *float64   `json:"spent,omitempty"`
	Left     *float64   `json:"left,omitempty"`
	ResetsAt *time.Time `json:"resetsAt,omitempty"`
}

// Usage reads the budgets of the caller's organisation and what was spent of them.
func (c *Client) Usage(ctx context.Context) (*Spending, error) {
	var out Spending
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "usage"), repeat: true}, &out)
	return orNil(&out, err)
}
