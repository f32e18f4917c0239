package auth

import (
	"net"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/aptixhq/aptix/internal/agent"
)

// An address may fail so often at once, and then once in so long. A client that was given
// a wrong key finds out; one that tries keys gets nowhere.
const (
	failureBurst = 10
	failureEvery = 6 * time.Second
	// watched bounds how many addresses are remembered; the one that has not failed for
	// longest is forgotten.
	watched = 10_000
)

// Failures counts wrong credentials, by the address that they come from.
type Failures struct {
	of  *lru.Cache[netip.Prefix, *rate.Limiter]
	now func() time.Time
}

// NewFailures returns one that has counted nothing.
func NewFailures(now func() time.Time) (*Failures, error) {
	of, err := lru.New[netip.Prefix, *rate.Limiter](watched)
	return &Failures{of: of, now: now}, err
}

// Count notes one failure and returns what the client is told: the fault itself, or
// agent.KindRateLimited when there were too many.
func (f *Failures) Count(remote string, fault error) error {
	where := network(remote)
	fresh := rate.NewLimiter(rate.Every(failureEvery), failureBurst)
	limiter, known, _ := f.of.PeekOrAdd(where, fresh)
	if !known {
		limiter = fresh
	}
	f.of.Get(where) // it is in use
	now := f.now()
	if limiter.AllowN(now, 1) {
		return fault
	}
	next := limiter.ReserveN(now, 1)
	wait := next.DelayFrom(now)
	next.CancelAt(now)
	e := agent.Errorf(agent.KindRateLimited, "Too many wrong credentials came from this address. Wait, and check the credential.").Because(fault)
	e.RetryAfter = wait
	return e
}

// network returns what counts as one address: of IPv6 the /64, since whoever has one has
// all of it.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{} // all that cannot be read count together
	}
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, _ := addr.Prefix(bits)
	return p
}
