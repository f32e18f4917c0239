package pipeline

import (
	"testing"

	"github.com/aptixhq/aptix/internal/reasoner"
)

func TestRunners_TheLastToRestRunsTheNext_AndCloseEndsThem(t *testing.T) {
	var r runners
	place := func() chan *turnRun { return make(chan *turnRun, 1) }
	first, last := place(), place()
	if !r.rest(first) || !r.rest(last) {
		t.Fatal("there is no place for two")
	}
	turn := &reasoner.Turn{}
	r.run(nil, &turnRun{turn: turn})
	select {
	case got := <-last:
		if got.turn != turn {
			t.Errorf("got turn %p, want %p", got.turn, turn)
		}
	default:
		t.Error("the one that came last has no turn")
	}
	for range maxIdle - 1 {
		if !r.rest(place()) {
			t.Fatal("there is no place for all that may wait")
		}
	}
	if r.rest(place()) {
		t.Errorf("more than %d wait", maxIdle)
	}
	r.close()
	select {
	case _, open := <-first:
		if open {
			t.Error("the end came as a turn")
		}
	default:
		t.Error("it still waits after the end")
	}
	if r.rest(place()) {
		t.Error("one waits after the end")
	}
}
