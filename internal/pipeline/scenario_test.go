package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/tool"
)

// scenarioOptions are what the file options says.
type scenarioOptions struct {
	chain, consent bool
	rules          agent.ApprovalRules
	exposure       agent.Exposure
}

func (o *scenarioOptions) read(text string) {
	o.rules = agent.ApprovalRules{}
	for _, word := range strings.Fields(text) {
		name, policy, isRule := strings.Cut(word, "=")
		switch {
		case name == "private":
			o.exposure.Private = append(o.exposure.Private, policy)
		case name == "untrusted":
			o.exposure.Untrusted = append(o.exposure.Untrusted, policy)
		case name == "outgoing":
			o.exposure.Outgoing = append(o.exposure.Outgoing, policy)
		case isRule:
			o.rules[name] = agent.ApprovalPolicy(policy)
		case word == "chain":
			o.chain = true
		case word == "consent":
			o.consent = true
		}
	}
}

func (o *scenarioOptions) apply(r *rig) {
	r.chain, r.consent, r.rules, r.exposure = o.chain, o.consent, o.rules, o.exposure
}

// tools are the server tools of scenarios.
func (o *scenarioOptions) tools(t *testing.T) []tool.Tool {
	t.Helper()
	type target struct {
		Target string `json:"target"`
	}
	deploy, errDeploy := tool.New(tool.Definition{Name: "deploy", Description: "Deploys.", Usage: "Use it to deploy."},
		func(_ context.Context, _ *tool.ExecutionContext, in target) (string, error) {
			if in.Target == "nowhere" {
				return "", errors.New("there is no such target")
			}
			return `{"deployed":"` + in.Target + `"}`, nil
		})
	look, errLook := tool.New(tool.Definition{Name: "look", Description: "Looks.", Usage: "Use it to look.", Idempotent: true},
		func(context.Context, *tool.ExecutionContext, struct{}) (string, error) { return `{"seen":"all"}`, nil })
	if err := errors.Join(errDeploy, errLook); err != nil {
		t.Fatal(err)
	}
	return []tool.Tool{deploy, look}
}

// decide takes bob's decision and, when the turn goes on, what comes of it.
func (sc *scenario) decide(n string, data []byte) {
	sc.t.Helper()
	ctx, cancel := context.WithTimeout(sc.t.Context(), 30*time.Second)
	defer cancel()
	var where struct {
		TurnID     agent.TurnID
		ApprovalID agent.ApprovalID
	}
	var body map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &where), json.Unmarshal(data, &body)); err != nil {
		sc.t.Fatalf("%s.decide.json: %v", n, err)
	}
	delete(body, "turnId")
	delete(body, "approvalId")
	bare, err := json.Marshal(body)
	if err != nil {
		sc.t.Fatal(err)
	}
	verdict, err := contract.DecodeVerdict(bare, contract.Limits{})
	if err != nil {
		sc.got[n+".decided.json"] = problem(err)
		return
	}
	key := agent.TurnKey{Org: caller.Org, Session: sc.session, Turn: where.TurnID}
	steps, err := sc.store.Steps(ctx, key)
	if err != nil {
		sc.t.Fatal(err)
	}
	last := steps[len(steps)-1]
	sc.sent = len(sc.provider.Requests())
	a, err := sc.pipeline.Decide(ctx, agent.Caller{Org: caller.Org, User: "bob"}, key, where.ApprovalID, verdict)
	if err != nil {
		sc.got[n+".decided.json"] = problem(err)
		return
	}
	decided, err := json.Marshal(a.Decided)
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.got[n+".decided.json"] = indent(decided)
	sc.follow(ctx, n, key, last.FirstEvent+int64(last.EventCount())-1, nil)
}

// branch makes a session off the scenario's, which goes on in the new one.
func (sc *scenario) branch(n string, data []byte) {
	sc.t.Helper()
	b, err := contract.DecodeBranchSession(data, contract.Limits{})
	if err != nil {
		sc.t.Fatalf("%s.branch.json: %v", n, err)
	}
	s, err := sc.sessions.Branch(sc.t.Context(), caller, sc.session, b)
	if err != nil {
		sc.got[n+".branched.json"] = problem(err)
		return
	}
	view, err := json.Marshal(struct {
		ID      agent.SessionID
		Mode    agent.ModeKey
		Parent  agent.Lineage
		Version int64
		Turns   int64
	}{s.ID, s.Mode, s.Parent, s.Version, s.Turns})
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.got[n+".branched.json"] = indent(view)
	sc.session, sc.turns = s.ID, nil
}

// enters reports whether a turn ran the bootstrap tools of its mode.
func (sc *scenario) enters(key agent.TurnKey) bool {
	sc.t.Helper()
	steps, err := sc.store.Steps(sc.t.Context(), key)
	if err != nil {
		sc.t.Fatal(err)
	}
	return slices.ContainsFunc(steps, func(s agent.Step) bool { return s.Kind == agent.StepEntering })
}
