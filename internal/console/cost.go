package console

import (
	"encoding/json"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
)

// priced finds the price of a turn's model, which is the same in all its calls.
func (c *Console) priced(v *turnView, a *agent.Asked) {
	if a.Call > 1 || len(c.prices) == 0 {
		return
	}
	var request struct {
		Model string `json:"model"`
	}
	if json.Unmarshal([]byte(a.Canonical), &request) == nil {
		v.price = c.prices[request.Model]
	}
}

// money writes a cost in the unit of the prices, with as many places as small ones take.
func money(c budget.Cost) string {
	units, places := c.Units(), 2
	switch {
	case units < 0.01:
		places = 6
	case units < 1:
		places = 4
	}
	return strconv.FormatFloat(units, 'f', places, 64)
}
