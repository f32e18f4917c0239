package contract

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

// userTurn and continuation put members into a body that is otherwise complete.
func userTurn(members string) string {
	return `{"sessionId":"s1","turnId":"t1",` + members + `}`
}

func artifact(members string) string {
	return userTurn(`"inputArtifacts":[{` + members + `}]`)
}

func continuation(members string) string {
	return `{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c1","executionMs":1,"resultJson":"1"}],` + members + `}`
}

// accept decodes a user turn that must be accepted.
func accept(t *testing.T, body string) UserTurn {
	t.Helper()
	r, err := DecodeExecute([]byte(body), Limits{})
	if err != nil {
		t.Fatalf("DecodeExecute(%s): %v, violations %v", body, err, violationsOf(err))
	}
	if r.User == nil || r.Continuation != nil {
		t.Fatalf("DecodeExecute(%s) = %+v, want a user turn", body, r)
	}
	return *r.User
}

// acceptContinuation decodes a continuation that must be accepted.
func acceptContinuation(t *testing.T, body string) ToolContinuation {
	t.Helper()
	r, err := DecodeExecute([]byte(body), Limits{})
	if err != nil {
		t.Fatalf("DecodeExecute(%s): %v, violations %v", body, err, violationsOf(err))
	}
	if r.Continuation == nil || r.User != nil {
		t.Fatalf("DecodeExecute(%s) = %+v, want a continuation", body, r)
	}
	return *r.Continuation
}

// refuse decodes a body that must be refused with exactly these faults, each written
// as its pointer, a blank and its rule.
func refuse(t *testing.T, body string, want ...string) {
	t.Helper()
	refuseWithin(t, body, Limits{}, want...)
}

func refuseWithin(t *testing.T, body string, lim Limits, want ...string) {
	t.Helper()
	_, err := DecodeExecute([]byte(body), lim)
	checkFaults(t, err, want...)
}

func checkFaults(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was accepted")
	}
	if got := agent.KindOf(err); got != agent.KindInvalidRequest {
		t.Fatalf("kind = %s, want %s: %v", got, agent.KindInvalidRequest, err)
	}
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Errorf("violations (-want +got):\n%s\n%v", diff, violationsOf(err))
	}
}

func lines(err error) []string {
	var out []string
	for _, v := range violationsOf(err) {
		out = append(out, v.Pointer+" "+v.Rule)
	}
	return out
}

func violationsOf(err error) []agent.Violation {
	if e := (*agent.Error)(nil); errors.As(err, &e) {
		return e.Violations
	}
	return nil
}
