package access

import (
	"context"
	"errors"

	"github.com/aptixhq/aptix/internal/agent"
)

// Reader reads sessions by their names alone.
type Reader interface {
	Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error)
}

var errNobody = errors.New("access: nobody is known to ask")

// guard looks at the session that something is about.
type guard struct{ sessions Reader }

// session returns nil when the session is there for the caller, and what is said of a
// session that does not exist when it is not. Who sees everything is not held up; whether
// there is such a session, what follows finds out.
func (g guard) session(ctx context.Context, org agent.OrgID, id agent.SessionID) error {
	by, err := caller(ctx)
	switch {
	case err != nil:
		return err
	case by.Org != org:
		return agent.NoSession(id)
	case !by.OnlyOwn():
		return nil
	}
	_, err = g.read(ctx, by, id)
	return err
}

// turn is session for a turn, of which nothing is said either.
func (g guard) turn(ctx context.Context, key agent.TurnKey) error {
	err := g.session(ctx, key.Org, key.Session)
	if agent.KindOf(err) == agent.KindNotFound {
		return agent.NoTurn(key)
	}
	return err
}

func (g guard) read(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error) {
	s, err := g.sessions.Get(ctx, by, id)
	if err == nil && !by.Sees(s) {
		return agent.Session{}, agent.NoSession(id)
	}
	return s, err
}

func caller(ctx context.Context) (agent.Caller, error) {
	by, ok := agent.CallerIn(ctx)
	if !ok {
		return agent.Caller{}, errNobody
	}
	return by, nil
}
