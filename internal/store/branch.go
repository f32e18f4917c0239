package store

import (
	"encoding/json"

	"github.com/aptixhq/aptix/internal/agent"
)

// Branch is a new session that remembers what its parent does, up to a turn. It gets
// copies of the parent's completed turns with their journals, and references to their
// contents: nothing in it depends on the parent, which may be erased. It is the one thing
// that reads one session and writes another in one transaction.
type Branch struct {
	// Session is the new session; its Parent names the last turn that it takes over, and
	// is without a turn when it takes none.
	Session agent.Session
	// Ordinal is that turn's; 0 without one.
	Ordinal int64
}

// EncodeApproved returns the stored form of the tools that are approved for a session, nil
// for none.
func EncodeApproved(tools []string) []byte {
	if len(tools) == 0 {
		return nil
	}
	b, err := json.Marshal(tools)
	if err != nil { // cannot happen: strings only
		return nil
	}
	return b
}

// DecodeApproved reads it again. Of what cannot be read nothing is approved.
func DecodeApproved(stored []byte) []string {
	if len(stored) == 0 {
		return nil
	}
	var tools []string
	if err := json.Unmarshal(stored, &tools); err != nil {
		return nil
	}
	return tools
}
