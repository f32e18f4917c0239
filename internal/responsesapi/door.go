package responsesapi

import (
	"context"
	"errors"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// Turns is what the door needs of the pipeline.
type Turns interface {
	Execute(ctx context.Context, by agent.Caller, x pipeline.Execution) (key agent.TurnKey, after int64, err error)
	Proceed(ctx context.Context, by agent.Caller, c pipeline.Continuation) (key agent.TurnKey, after int64, stream bool, err error)
	Await(ctx context.Context, key agent.TurnKey) (agent.Turn, error)
	ReaderThrough(key agent.TurnKey, after int64) events.Reader[agent.Event]
	Cancel(ctx context.Context, key agent.TurnKey) error
	Erase(ctx context.Context, by agent.Caller, id agent.SessionID) error
	Turn(ctx context.Context, key agent.TurnKey) (agent.Turn, error)
	Turns(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.Turn, string, error)
	Steps(ctx context.Context, key agent.TurnKey) ([]agent.Step, error)
}

// Sessions is what the door needs of the session manager.
type Sessions interface {
	Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error)
}

// Tools knows the server's tools.
type Tools interface {
	// Reserved reports whether no client tool may have the name.
	Reserved(name string) bool
	Names() []string
}

// Contexts lists what the door shows as models.
type Contexts interface {
	List() []agent.ContextName
}

// Config holds the parts of a Door; all are required but Limits.
type Config struct {
	Turns    Turns
	Sessions Sessions
	Tools    Tools
	Contexts Contexts
	// Limits bound the files and images of a request.
	Limits contract.Limits
}

// Door answers as the Responses API does. It keeps nothing: everything that it shows
// is in the journal. It is safe for concurrent use.
type Door struct {
	turns    Turns
	sessions Sessions
	tools    Tools
	contexts Contexts
	limits   contract.Limits
}

// New returns a door, or an error when a part is missing.
func New(c Config) (*Door, error) {
	if c.Turns == nil || c.Sessions == nil || c.Tools == nil || c.Contexts == nil {
		return nil, errors.New("responsesapi: Turns, Sessions, Tools and Contexts are all required")
	}
	return &Door{turns: c.Turns, sessions: c.Sessions, tools: c.Tools, contexts: c.Contexts, limits: c.Limits}, nil
}
