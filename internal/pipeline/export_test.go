package pipeline

import "github.com/aptixhq/aptix/internal/agent"

// Left returns a channel that is closed when the turn's present run has left this
// process, nil when it does not run here.
func (p *Pipeline) Left(key agent.TurnKey) <-chan struct{} {
	if r := p.runningTurn(key); r != nil {
		return r.done
	}
	return nil
}
