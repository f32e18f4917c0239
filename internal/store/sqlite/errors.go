package sqlite

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// explain adds what was being done to an error and gives a full disk its kind.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	if isFull(err) {
		return errFull().Because(err)
	}
	return err
}

func noSession(id agent.SessionID) error {
	return agent.NoSession(id)
}

func noTurn(k agent.TurnKey) error {
	return agent.NoTurn(k)
}
