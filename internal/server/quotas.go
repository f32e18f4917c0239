package server

import (
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/quota"
)

// quotas hold callers to what they may do at a time.
type quotas struct {
	plans   quota.Plans
	rates   *quota.Rates
	streams quota.Counter[quota.User]
}

// request takes one request of a caller in, or says when it would.
func (q *quotas) request(who agent.Caller) error {
	at := q.plans.Of(who.Org).Requests
	wait, ok := q.rates.Take(quota.UserOf(who), at)
	if ok {
		return nil
	}
	e := agent.Errorf(agent.KindRateLimited, "These are more than %g requests a second. Send the request again in %s.", at.PerSecond, wait.Round(time.Millisecond))
	e.RetryAfter = wait
	return e
}

// mayStream refuses a turn whose stream could not be opened, before it is begun.
func (q *quotas) mayStream(who agent.Caller) error {
	if most := q.plans.Of(who.Org).Streams; most > 0 && q.streams.Of(quota.UserOf(who)) >= most {
		return errManyStreams(most)
	}
	return nil
}

// stream counts a stream of a caller until closed is called. A turn that was begun with a
// stream that is refused here goes on.
func (q *quotas) stream(r *http.Request) (closed func(), err error) {
	who := callerOf(r)
	most := q.plans.Of(who.Org).Streams
	if most <= 0 {
		return func() {}, nil
	}
	user := quota.UserOf(who)
	if !q.streams.Enter(user, most) {
		return nil, errManyStreams(most)
	}
	return func() { q.streams.Leave(user) }, nil
}

func errManyStreams(most int) error {
	return agent.Errorf(agent.KindRateLimited,
		"%d streams are open, as many as a caller may have. Close one that nobody reads, or read the turn without a stream.", most)
}
