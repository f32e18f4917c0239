package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

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

// isRepeated reports whether a row with this primary key is there already.
func isRepeated(err error) bool {
	coded := (*driver.Error)(nil)
	return errors.As(err, &coded) && coded.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY
}

func noSession(id agent.SessionID) error {
	return agent.NoSession(id)
}

func noTurn(k agent.TurnKey) error {
	return agent.NoTurn(k)
}
