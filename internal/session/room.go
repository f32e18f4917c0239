package session

import (
	"context"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// Room refuses another session of an organisation that has as many as it may:
// agent.KindLimitReached, since waiting does not help. Otherwise whoever asked calls made once
// the session is stored, or will not be; until then nobody else in this process gets an
// answer for that organisation.
func (m *Manager) Room(ctx context.Context, org agent.OrgID) (made func(), err error) {
	most := m.quotas.Of(org).Sessions
	if most <= 0 {
		return func() {}, nil
	}
	made, err = m.making.Pass(ctx, org)
	if err != nil {
		return nil, err
	}
	n, err := m.store.CountSessions(ctx, org, most)
	if err == nil && n >= most {
		err = agent.Errorf(agent.KindLimitReached, "The organisation has %d sessions, as many as it may have. Erase some that are not needed any more.", n)
	}
	if err != nil {
		made()
		return nil, fmt.Errorf("room for a session of %s: %w", org, err)
	}
	return made, nil
}
