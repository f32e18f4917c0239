package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// failingDisk is SQLite's own way to the disk with a fault in it: the n-th write, sync
// or truncation of any file fails, once.
type failingDisk struct {
	after atomic.Int64 // how many operations until the fault; below 1 there is none
	fault atomic.Int32 // what it is told as
	hit   atomic.Bool
}

// disk is the one failing disk of the process, since C has no closures.
var disk failingDisk

// arm lets the n-th operation from now on fail with an error of SQLite.
func (d *failingDisk) arm(n int, fault int32) {
	d.hit.Store(false)
	d.fault.Store(fault)
	d.after.Store(int64(n))
}

// disarm takes the fault out again and reports whether it has happened.
func (d *failingDisk) disarm() bool {
	d.after.Store(0)
	return d.hit.Load()
}

func (d *failingDisk) fails() bool {
	if d.after.Load() < 1 || d.after.Add(-1) != 0 {
		return false
	}
	d.hit.Store(true)
	return true
}

// What SQLite calls, and what it would have called.
type (
	openFunc     func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	writeFunc    func(tls *libc.TLS, file, buf uintptr, amount int32, offset int64) int32
	syncFunc     func(tls *libc.TLS, file uintptr, flags int32) int32
	truncateFunc func(tls *libc.TLS, file uintptr, size int64) int32
)

var system struct {
	vfs      uintptr
	open     openFunc
	write    writeFunc
	sync     syncFunc
	truncate truncateFunc

	mu sync.Mutex // guards what follows, and that above but for vfs and open
	// methods are the tables of a file's functions, and the same with ours in them.
	methods map[uintptr]uintptr
}

// at is memory of C. It is never Go's.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer is a function as C has it, and function the way back.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// onFailingDisk makes disk the default for the length of a test.
func onFailingDisk(t *testing.T) {
	t.Helper()
	tls := libc.NewTLS()
	system.vfs = lib.Xsqlite3_vfs_find(tls, 0)
	own := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	*at[lib.Tsqlite3_vfs](own) = *at[lib.Tsqlite3_vfs](system.vfs)
	name, err := libc.CString("failing")
	if err != nil {
		t.Fatal(err)
	}
	system.open = function[openFunc](at[lib.Tsqlite3_vfs](own).FxOpen)
	at[lib.Tsqlite3_vfs](own).FzName = name
	at[lib.Tsqlite3_vfs](own).FpNext = 0
	at[lib.Tsqlite3_vfs](own).FxOpen = pointer(openFunc(diskOpen))
	if rc := lib.Xsqlite3_vfs_register(tls, own, 1); rc != lib.SQLITE_OK {
		t.Fatalf("register the failing disk: %d", rc)
	}
	t.Cleanup(func() {
		disk.disarm()
		// The memory stays: a file may still be closed with it.
		lib.Xsqlite3_vfs_unregister(tls, own)
		lib.Xsqlite3_vfs_register(tls, system.vfs, 1)
		tls.Close()
	})
}

func diskOpen(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := system.open(tls, system.vfs, name, file, flags, outFlags)
	if rc != lib.SQLITE_OK {
		return rc
	}
	methods := at[uintptr](file)
	system.mu.Lock()
	defer system.mu.Unlock()
	if system.methods[*methods] == 0 {
		own := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := at[lib.Tsqlite3_io_methods](own)
		*m = *at[lib.Tsqlite3_io_methods](*methods)
		if system.methods == nil { // the three are the same in every table
			system.methods = map[uintptr]uintptr{}
			system.write = function[writeFunc](m.FxWrite)
			system.sync = function[syncFunc](m.FxSync)
			system.truncate = function[truncateFunc](m.FxTruncate)
		}
		m.FxWrite, m.FxSync, m.FxTruncate = pointer(writeFunc(diskWrite)), pointer(syncFunc(diskSync)), pointer(truncateFunc(diskTruncate))
		system.methods[*methods] = own
	}
	*methods = system.methods[*methods]
	return rc
}

func diskWrite(tls *libc.TLS, file, buf uintptr, amount int32, offset int64) int32 {
	if disk.fails() {
		return disk.fault.Load()
	}
	return system.write(tls, file, buf, amount, offset)
}

func diskSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	if disk.fails() {
		return disk.fault.Load()
	}
	return system.sync(tls, file, flags)
}

func diskTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	if disk.fails() {
		return disk.fault.Load()
	}
	return system.truncate(tls, file, size)
}

// Whatever operation of the disk fails: the writer is told, what was acknowledged is
// there and nothing else is, and the store goes on without being opened again.
func TestFailingDisk_EveryOperation(t *testing.T) {
	onFailingDisk(t)
	for name, fault := range map[string]int32{"EIO": lib.SQLITE_IOERR, "full": lib.SQLITE_FULL} {
		t.Run(name, func(t *testing.T) {
			step := 23 // the short form
			if os.Getenv("APTIX_TORTURE") != "" {
				step = 1
			}
			n := 1
			for failNth(t, n, fault) {
				if n += step; n > 1000 {
					t.Fatal("it does not end")
				}
			}
			if n < 50 {
				t.Errorf("only %d operations", n)
			}
			t.Logf("of %d operations each %dth has failed once", n-1, step)
		})
	}
}

// failNth lets the n-th operation fail while turns are written and a session is erased.
// It reports whether there were so many.
func failNth(t *testing.T, n int, fault int32) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	if err := benchTurn(s, key("erased", 1), 0, t); err != nil {
		t.Fatal(err)
	}
	what := fmt.Sprintf("operation %d", n)
	disk.arm(n, fault)
	steps := map[agent.TurnKey]int{}
	for turn := range 2 {
		k := key(1, turn)
		var version int64
		if sess, err := s.Session(t.Context(), "acme", "s1"); err == nil {
			version = sess.Version
		}
		if err := s.OpenTurn(t.Context(), newTurn("s1", k.Turn, version)); err != nil {
			continue
		}
		steps[k] = 1
		for _, state := range []agent.TurnState{agent.TurnRunning, agent.TurnCompleted} {
			a := store.Append{Key: k, State: state, Steps: []agent.Step{{N: steps[k] + 1, Kind: agent.StepResumed, Resumed: &agent.Resumed{}}}}
			if s.AppendSteps(t.Context(), a) == nil {
				steps[k]++
			}
		}
	}
	erased := s.DeleteSession(t.Context(), "acme", "serased") == nil
	_ = s.upkeep.checkpoint(t.Context()) // if it fails the log has it all
	hit := disk.disarm()

	holds := func(when string) {
		t.Helper()
		for turn := range 2 {
			k := key(1, turn)
			got, err := s.Steps(t.Context(), k)
			if err != nil && agent.KindOf(err) != agent.KindNotFound || len(got) != steps[k] {
				t.Errorf("%s, %s: %s has %d steps (error %v), %d were acknowledged", what, when, k, len(got), err, steps[k])
			}
		}
		if _, err := s.Session(t.Context(), "acme", "serased"); (agent.KindOf(err) == agent.KindNotFound) != erased {
			t.Errorf("%s, %s: the session's erasing was acknowledged: %t, but it says %v", what, when, erased, err)
		}
		var verdict string
		if err := s.pool.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Errorf("%s, %s: integrity check says %q (error %v)", what, when, verdict, err)
		}
	}
	holds("afterwards")
	if s.Room() != nil {
		s.upkeep.heal(t.Context()) // as it would by itself within a second
	}
	if err := benchTurn(s, key("after", 1), 0, t); err != nil {
		t.Errorf("%s: the store does not go on: %v", what, err)
	}
	closeStore(t, s)
	s = open(t, path)
	holds("after a restart")
	closeStore(t, s)
	return hit
}
