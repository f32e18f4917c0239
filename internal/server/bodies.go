package server

import (
	"math"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/aptixhq/aptix/internal/agent"
)

// defaultBodies is how many bytes of request bodies are taken in at a time where the runtime
// has no memory limit.
const defaultBodies = 512 << 20

// bodyShare is the part of the runtime's memory limit that bodies may have: each needs a few
// times its size until it is decoded, and the turns that run need the rest.
const bodyShare = 8

// bodies bounds the request bodies that are in memory at a time, of all callers together.
type bodies struct{ left atomic.Int64 }

// defaultRoom is what there is for bodies; one of the greatest size fits in any case.
func defaultRoom(body int64) int64 {
	room := int64(defaultBodies)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // it is only read
		room = limit / bodyShare
	}
	return max(room, 2*body)
}

// fits refuses a body that says how long it is, and for which there is no room now.
func (b *bodies) fits(r *http.Request) error {
	if r.ContentLength > b.left.Load() {
		return errManyBodies()
	}
	return nil
}

// hold takes room for what came of a body, until the exchange is over or lets go of it: one
// that says how long it is and does not come takes none.
func (b *bodies) hold(x *exchange, size int64) error {
	if b.left.Add(-size) < 0 {
		b.left.Add(size)
		return errManyBodies()
	}
	x.body += size
	return nil
}

func errManyBodies() error {
	return agent.Errorf(agent.KindRateLimited, "The server is taking in as many large requests as it can. Send the request again in a moment.")
}

// letGo gives the room of an exchange's body back.
func (b *bodies) letGo(x *exchange) {
	b.left.Add(x.body)
	x.body = 0
}
