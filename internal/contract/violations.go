package contract

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/agent"
)

// Ids of the rules that AGN-034 leaves open and decisions 1 to 4 settle.
const (
	ruleJSON        = "APTIX-json"           // malformed JSON, the same member twice
	ruleUnknown     = "APTIX-unknown-member" // a member that the contract does not know
	ruleIDs         = "APTIX-ids"            // syntax of ids, decision 3
	ruleLimits      = "APTIX-limits"         // counts and sizes
	ruleType        = "APTIX-type"           // session bodies: another JSON type was expected
	ruleRequired    = "APTIX-required"       // session bodies: a member is missing
	ruleConcurrency = "APTIX-concurrency"    // a policy that there is not
)

// What one answer lists at most: a body that breaks more rules than this is not going
// to be mended by reading on. Pointers are as long as a client makes its names, so
// their bytes are bounded too.
const (
	maxViolations   = 1000
	maxPointerBytes = 1 << 20
)

// violations collects the faults of one body.
type violations struct {
	list         []agent.Violation
	pointerBytes int
	more         int
}

func (v *violations) add(pointer, rule, format string, args ...any) {
	if v.full() {
		v.more++
		return
	}
	v.pointerBytes += len(pointer)
	v.list = append(v.list, agent.Violation{Pointer: pointer, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (v *violations) full() bool {
	return len(v.list) >= maxViolations || v.pointerBytes >= maxPointerBytes
}

// err returns nil when nothing was added.
func (v *violations) err() error {
	if len(v.list) == 0 {
		return nil
	}
	e := agent.Errorf(agent.KindInvalidRequest, "The request breaks the contract in %d places; mend every one that is listed and send it again.", len(v.list)+v.more)
	switch {
	case v.more > 0:
		e.Message = fmt.Sprintf("The request breaks the contract in %d places, of which the first %d are listed; mend them and send it again.", len(v.list)+v.more, len(v.list))
	case len(v.list) == 1:
		e.Message = "The request breaks the contract: " + v.list[0].Message
	}
	e.Violations = v.list
	return e
}

// escape renders a member name as a token of a JSON pointer (RFC 6901 §3).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// quote renders a client's string for a message, cut to a length that a person reads.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return fmt.Sprintf("%q", s)
}
