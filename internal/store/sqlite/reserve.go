package sqlite

import (
	"errors"
	"os"
	"sync"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/aptixhq/aptix/internal/agent"
)

// A disk that runs full must not take away what is under way: a turn whose answer was
// paid for has to be written down, and a session be erased to make room. So space is
// set aside beside the data file, in a file of its own. It is given free when the disk
// is full, for them alone: nothing new begins until it is set aside again.

// reserveSize is how much space is set aside, in bytes: enough for the ends of some
// hundred turns.
const reserveSize = 4 << 20

// reserve is the space that is set aside.
type reserve struct {
	path string

	mu   sync.Mutex // guards held
	held bool
}

// hold sets the space aside, unless it is already. The file stays when the process
// ends, so that it is there at the next start, when the disk may be full.
func (r *reserve) hold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := allocate(f, reserveSize); err != nil {
		// What there was of it is somebody else's to use.
		return errors.Join(err, f.Truncate(0), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	r.held = true
	return nil
}

// release gives the space free.
func (r *reserve) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	return os.Truncate(r.path, 0)
}

func (r *reserve) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// fill makes a file as large as asked for by writing to it.
func fill(f *os.File, size int64) error {
	zeros := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync() // some file systems look for space only now
}

// Room returns nil, or the fault that says that the disk is full: then nothing new is
// taken in, what is there can be read, and what is under way may end. It is over by
// itself, a second or two after there is space again.
func (s *Store) Room() error {
	if s.reserve.isHeld() {
		return nil
	}
	return errFull()
}

func errFull() *agent.Error {
	return agent.Errorf(agent.KindStorageFull,
		"The server's disk is full and nothing of this was stored. Free some space on it, then send the request again.")
}

// isFull reports whether the file could not grow.
func isFull(err error) bool {
	coded := (*driver.Error)(nil)
	if !errors.As(err, &coded) {
		return false
	}
	// The low byte is the error, the rest its detail. The second is a full disk too:
	// the index of the log, which is mapped into memory, could not grow.
	return coded.Code()&0xff == lib.SQLITE_FULL || coded.Code() == lib.SQLITE_IOERR_SHMSIZE
}
