package bus

import (
	"testing"

	"github.com/aptixhq/aptix/internal/natstest"
)

// BenchmarkFollow measures how long an event takes from the owner's Log to a reader on
// another node, one after the other.
func BenchmarkFollow(b *testing.B) {
	url := natstest.Start(b).URL()
	owner, reader := start(b, url), start(b, url)
	connected(b, owner, reader)
	u := begin(owner, key, 1)
	defer u.log.Close()
	log := must(b, reader, key, 0)
	r := log.Reader(0)
	for b.Loop() {
		u.log.Append(sample(key, u.log.Next()))
		for {
			ready, again, err := r.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if len(ready) > 0 {
				break
			}
			<-again
		}
	}
}
