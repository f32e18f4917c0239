package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// smallDisk mounts a disk of so many MiB for the length of a test.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		if os.Getenv("APTIX_REQUIRE_MOUNT") != "" {
			t.Fatalf("a small disk cannot be mounted: %v", err)
		}
		t.Skipf("WARNING  a small disk cannot be mounted (%v): nothing shows what a full one does. Run it as root.", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fillDisk takes all the space that is left and returns how to give it back.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	if agent.KindOf(err) != agent.KindStorageFull {
		t.Errorf("%s on a full disk: %v, want storage_full", what, err)
	}
}

// untilRoom sends a turn until it is taken: a second or two after there is space, but
// this machine may be busy.
func (r *rig) untilRoom(session, turn string) agent.Turn {
	r.t.Helper()
	until := time.Now().Add(30 * time.Second)
	for {
		key, _, err := r.pipeline.Submit(r.t.Context(), caller, userTurn(session, turn, "Hello"))
		if err == nil {
			return r.await(key)
		}
		if agent.KindOf(err) != agent.KindStorageFull {
			r.t.Fatal(err)
		}
		if time.Now().After(until) {
			r.t.Fatalf("half a minute after there is space: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A disk that runs full under a turn does not take its answer: there is space in
// reserve for it. What is there can be read, nothing new begins, nobody is asked twice,
// and it is over by itself when there is space again.
func TestFullDisk_TurnsEndAndNoneBegin(t *testing.T) {
	release := make(chan struct{})
	said := strings.Repeat("word ", 20_000)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "First."}, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
		llmtest.Reply{Text: said, Block: release}, llmtest.Reply{Text: "After."}, llmtest.Reply{Text: "Read."}),
		func(r *rig) {
			r.path = filepath.Join(smallDisk(t, 8), "aptix.db")
			r.times.SweepEvery = 50 * time.Millisecond
			r.times.Gather = -1 // else the first turn that meets the full disk has asked already
		})
	first := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	r.createWithTools("s2")
	waits := r.run(pipeline.Execution{UserTurn: userTurn("s2", "t1", "Read")})
	key := r.submit(userTurn("s1", "t2", "Say much"))
	if err := r.provider.Await(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	free := fillDisk(t, filepath.Dir(r.path))
	_, _, err := r.pipeline.Submit(t.Context(), caller, withContents(userTurn("s3", "t1", "Hello"), 64<<10))
	wantFull(t, "a turn", err)
	close(release)
	if got := r.answer(r.await(key)).PrimaryOutputText; got != said {
		t.Errorf("the answer has %d bytes, want %d", len(got), len(said))
	}
	_, _, err = r.pipeline.Submit(t.Context(), caller, userTurn("s3", "t1", "Hello"))
	wantFull(t, "a turn that needs little", err)
	_, _, _, err = r.pipeline.Continue(t.Context(), caller, results("s2", "t1", "c1"))
	wantFull(t, "a continuation", err)
	for _, turn := range []agent.Turn{first, waits} {
		if got, err := r.pipeline.Turn(t.Context(), turn.Key); err != nil || string(got.Response) != string(turn.Response) {
			t.Errorf("read of %s: %v", turn.Key, err)
		}
		r.journal(turn)
	}

	free()
	if got := r.answer(r.untilRoom("s3", "t1")).PrimaryOutputText; got != "After." {
		t.Errorf("answer %q", got)
	}
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s2", "t1", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := r.answer(r.await(waits.Key)).PrimaryOutputText; got != "Read." {
		t.Errorf("answer %q", got)
	}
	r.restart()
	for _, k := range []agent.TurnKey{first.Key, key, waits.Key} {
		r.journal(r.await(k))
	}
}

// An answer that is larger than all that is in reserve cannot be kept. Its turn waits
// for space without asking the model again and again, and ends then.
func TestFullDisk_LargerThanTheReserve(t *testing.T) {
	release := make(chan struct{})
	large := strings.Repeat("x", 5<<19)
	sweeps := make(chan struct{})
	h := &hooks{swept: func() {
		select {
		case sweeps <- struct{}{}:
		default:
		}
	}}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: large, Block: release}, llmtest.Reply{Text: "Short."}),
		func(r *rig) {
			r.path = filepath.Join(smallDisk(t, 8), "aptix.db")
			r.times.SweepEvery = 20 * time.Millisecond
		})
	key := r.submit(userTurn("s1", "t1", "Say much"))
	left := r.pipeline.Left(key)
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	free := fillDisk(t, filepath.Dir(r.path))
	close(release)
	<-left
	turn, err := r.pipeline.Turn(t.Context(), key)
	if err != nil || turn.State.Terminal() {
		t.Fatalf("turn %s (error %v), want one that is not over", turn.State, err)
	}
	for range 5 {
		<-sweeps
	}
	if n := len(r.provider.Requests()); n != 1 {
		t.Errorf("the model was asked %d times while there was no space, want 1", n)
	}
	r.restart() // which must be possible meanwhile
	if n := len(r.provider.Requests()); n != 1 {
		t.Errorf("the model was asked %d times after the restart, want 1", n)
	}
	free()
	until := time.Now().Add(30 * time.Second)
	for turn.State != agent.TurnCompleted && time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond)
		if turn, err = r.pipeline.Turn(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.answer(turn).PrimaryOutputText; got != "Short." {
		t.Errorf("answer %q", got)
	}
	r.journal(turn)
}
