package pipeline

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/prompt"
)

// unseen is the decision that a turn breaks with what the model would not get to see.
const unseen = "D42"

// fits refuses a turn with images or binary files that the endpoint of its context
// does not show to the model: it would answer as if it had seen them, or the provider
// would refuse a request that is in the journal already. Text files stand in the
// user's message and always fit. The error is of kind KindInvalidRequest and points at
// everything that has to go.
func fits(c agent.ConversationContext, u contract.UserTurn) error {
	var found []agent.Violation
	add := func(member string, i int, what string) {
		found = append(found, agent.Violation{Pointer: fmt.Sprintf("/%s/%d", member, i), Rule: unseen,
			Message: fmt.Sprintf("The model of this conversation cannot see %s.", what)})
	}
	if c.NoFiles {
		for i, a := range u.InputArtifacts {
			if _, text := prompt.ArtifactData(a); !text {
				add("inputArtifacts", i, "binary files")
			}
		}
	}
	if c.NoImages {
		for i := range u.ClipboardImages {
			add("clipboardImages", i, "images")
		}
	}
	if len(found) == 0 {
		return nil
	}
	err := agent.Errorf(agent.KindInvalidRequest,
		"The model of this conversation cannot see %d of the turn's images and binary files; leave them out, or send what they say as text.", len(found))
	err.Violations = found
	return err
}
