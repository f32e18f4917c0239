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
	// The low byte is the error, the rest its detail.
	if coded := (*driver.Error)(nil); errors.As(err, &coded) && coded.Code()&0xff == lib.SQLITE_FULL {
		return agent.Errorf(agent.KindStorageFull,
			"The server's disk is full and nothing of this was stored. Free some space on it, then send the request again.").Because(err)
	}
	return err
}

func noSession(id agent.SessionID) error {
	return agent.Errorf(agent.KindNotFound, "There is no session %q. Check the id, or list the sessions to see which there are.", id)
}

func noTurn(k agent.TurnKey) error {
	return agent.Errorf(agent.KindNotFound, "There is no turn %q in session %q. Check the ids, or list the session's turns.", k.Turn, k.Session)
}
