package contract

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

// FuzzDecodeExecute holds the reader to its promises for any bytes: it never panics; a
// refusal says why; what it accepts can be sent again and is then the same request.
func FuzzDecodeExecute(f *testing.F) {
	prove.Rule(f, "AGN034-1-a")
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, storedBody,
		userTurn(`"instruction":"hi","stream":true,"solutionContextText":""`),
		`{"SessionId":"s1","TurnId":"t1","Instruction":" ","InputArtifacts":[{"RelativePath":"a\\b","FileName":"b","Contents":"","Origin":"ide"}]}`,
		scope(`{"key":"repo","operator":"==","values":["a",""]}`),
		continuation(`"instruction":null`),
		results(`{"toolCallId":"c1","executionMs":1,"errorMessage":"no"},{"toolCallId":"c2","executionMs":0,"resultJson":"{\"a\":\"\\ud800\"}"}`),
		continuation(`"mode":"x","stream":false,"Mode":1`),
		artifact(artifactAt("%252e%252e/CON")),
		userTurn(`"instruction":"\ud800"`), userTurn(`"instruction":1e400,"x":[[[{}]]]`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeExecute(body, Limits{})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		var again []byte
		if r.User != nil {
			again, err = json.Marshal(r.User)
		} else {
			again, err = json.Marshal(r.Continuation)
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := DecodeExecute(again, Limits{Body: int64(len(again))})
		if err != nil {
			t.Fatalf("%s was accepted, %s was not: %v", body, again, err)
		}
		switch {
		case r.User != nil && second.User != nil:
			if r.User.SHA256() != second.User.SHA256() {
				t.Errorf("%s is another turn than %s", again, body)
			}
		case r.Continuation != nil && second.Continuation != nil:
			if r.Continuation.SHA256() != second.Continuation.SHA256() {
				t.Errorf("%s is another continuation than %s", again, body)
			}
		default:
			t.Errorf("%s is of another scenario than %s", again, body)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e := (*agent.Error)(nil)
	if !errors.As(err, &e) || e.Kind != agent.KindInvalidRequest && e.Kind != agent.KindPayloadTooLarge {
		t.Fatalf("error = %v, want a fault of the contract", err)
	}
	if e.Kind == agent.KindInvalidRequest && len(e.Violations) == 0 {
		t.Error("a refusal without a violation")
	}
	for _, v := range e.Violations {
		if v.Rule == "" || v.Message == "" || v.Pointer != "" && v.Pointer[0] != '/' {
			t.Errorf("violation = %+v, want a pointer, a rule and a message", v)
		}
	}
}
