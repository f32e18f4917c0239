package agent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

func TestApprovalRules_Of(t *testing.T) {
	rules := agent.ApprovalRules{
		"deploy": agent.ApprovalNever, "de*": agent.ApprovalAlwaysAsk, "*": agent.ApprovalNever,
		"github__*": agent.ApprovalAsk, "github__delete_*": agent.ApprovalAlwaysAsk, "github__get": agent.ApprovalNever,
	}
	for name, want := range map[string]agent.ApprovalPolicy{
		"deploy": agent.ApprovalNever, "delete": agent.ApprovalAlwaysAsk, "look": agent.ApprovalNever,
		"github__search": agent.ApprovalAsk, "github__delete_repo": agent.ApprovalAlwaysAsk, "github__get": agent.ApprovalNever,
	} {
		if got, ok := rules.Of(name); !ok || got != want {
			t.Errorf("%s: got %s, %t; want %s", name, got, ok, want)
		}
	}
	if got, ok := (agent.ApprovalRules{"de*": agent.ApprovalAsk}).Of("look"); ok {
		t.Errorf("rules that do not speak of a tool say %s", got)
	}
	if _, ok := agent.ApprovalRules(nil).Of("look"); ok {
		t.Error("no rules say something")
	}
}

func TestApprovalRules_Problems(t *testing.T) {
	got := agent.ApprovalRules{"[": agent.ApprovalAsk, "": agent.ApprovalAsk, "a": "Ask", "b*": agent.ApprovalAlwaysAsk}.Problems()
	want := []string{
		`"" is neither the name of a tool nor a pattern of names`, `"[" is neither the name of a tool nor a pattern of names`,
		`a: "Ask" is unknown; want never, ask or always-ask`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
