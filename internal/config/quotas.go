package config

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/quota"
)

// Quotas bound what an organisation and its callers do at a time. A member that is nil says
// nothing, 0 is no bound.
type Quotas struct {
	// Streams is how many streams a caller may have open, and Requests how many requests
	// he may make.
	Streams  *int `koanf:"streams"`
	Requests Rate `koanf:"requests"`
	// Turns is how many turns of an organisation may run at a time on a node, and Sessions
	// how many sessions it may have.
	Turns    *int `koanf:"turns"`
	Sessions *int `koanf:"sessions"`
}

// Rate is so many requests a second, and Burst at once after a pause: as many as in a second
// when it is left out.
type Rate struct {
	Rate  *float64 `koanf:"rate"`
	Burst *int     `koanf:"burst"`
}

// Organisation is what is different for one organisation. What it does not name is as for all
// others.
type Organisation struct {
	Limits  Quotas  `koanf:"limits"`
	Budgets Budgets `koanf:"budgets"`
}

// over returns the quotas with those of another layer put over them.
func (q Quotas) over(below Quotas) Quotas {
	return Quotas{
		Streams: first(q.Streams, below.Streams), Turns: first(q.Turns, below.Turns), Sessions: first(q.Sessions, below.Sessions),
		Requests: Rate{Rate: first(q.Requests.Rate, below.Requests.Rate), Burst: first(q.Requests.Burst, below.Requests.Burst)},
	}
}

// first returns what is set, the upper layer's before the lower one's.
func first[T any](upper, lower *T) *T {
	if upper != nil {
		return upper
	}
	return lower
}

// of returns what is set, nothing when it is not.
func of[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (q Quotas) limits() quota.Limits {
	r := quota.Rate{PerSecond: of(q.Requests.Rate), Burst: of(q.Requests.Burst)}
	if r.PerSecond > 0 && r.Burst == 0 {
		r.Burst = max(1, int(r.PerSecond))
	}
	return quota.Limits{Streams: of(q.Streams), Requests: r, Turns: of(q.Turns), Sessions: of(q.Sessions)}
}

// QuotaPlans returns the quotas of every organisation.
func (c Config) QuotaPlans() quota.Plans {
	p := quota.Plans{Default: c.Limits.limits(), Organisations: map[agent.OrgID]quota.Limits{}}
	for name, o := range c.Organisations {
		p.Organisations[agent.OrgID(name)] = o.Limits.over(c.Limits.Quotas).limits()
	}
	return p
}

func (q Quotas) problems(at string) Problems {
	var p Problems
	for _, v := range []struct {
		name string
		bad  bool
	}{
		{"streams", of(q.Streams) < 0}, {"requests.rate", !(of(q.Requests.Rate) >= 0)}, {"requests.burst", of(q.Requests.Burst) < 0},
		{"turns", of(q.Turns) < 0}, {"sessions", of(q.Sessions) < 0},
	} {
		if v.bad {
			p = append(p, fmt.Sprintf("%s.%s: must not be negative; 0 is no limit", at, v.name))
		}
	}
	return p
}
