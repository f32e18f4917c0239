package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func scope(conditions string) string {
	return userTurn(`"instruction":"hi","ragScope":{"conditions":[` + conditions + `]}`)
}

func TestRAGScope_Conditions(t *testing.T) {
	prove.Rule(t, "AGN034-4.4-a", "AGN034-4.4-b")
	got := accept(t, scope(`{"key":"repo","operator":"==","values":["a","b"]},{"key":"path.dir-1_x","operator":"!=","values":[""]},
		{"Key":"K","Operator":"contains","Values":["' OR 1=1"]},{"key":"k","operator":"does_not_contain","values":["x"]}`)).RAGScope
	want := &agent.RAGScope{Conditions: []agent.RAGCondition{
		{Key: "repo", Operator: "==", Values: []string{"a", "b"}}, {Key: "path.dir-1_x", Operator: "!=", Values: []string{""}},
		{Key: "K", Operator: "contains", Values: []string{"' OR 1=1"}}, {Key: "k", Operator: "does_not_contain", Values: []string{"x"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scope (-want +got):\n%s", diff)
	}
}

// TestRAGScope_Faults holds row S-16 of docs/security.md.
func TestRAGScope_Faults(t *testing.T) {
	prove.Rule(t, "AGN034-4.4-a", "AGN034-4.4-b")
	const at = "/ragScope/conditions/0"
	refuse(t, scope(`{}`), at+"/key AGN034-4.4-a", at+"/operator AGN034-4.4-b", at+"/values AGN034-4.4-a")
	refuse(t, scope(`{"key":1,"operator":2,"values":"x"}`), at+"/key AGN034-4.4-a", at+"/operator AGN034-4.4-b", at+"/values AGN034-4.4-a")
	refuse(t, scope(`null,"x"`), "/ragScope/conditions/0 AGN034-4.4-a", "/ragScope/conditions/1 AGN034-4.4-a")
	for _, key := range []string{"", "a b", "a'", "a;--", "$where", "é", "a/b", strings.Repeat("k", 65)} {
		refuse(t, scope(`{"key":"`+key+`","operator":"==","values":["x"]}`), at+"/key AGN034-4.4-a")
	}
	for _, operator := range []string{"", "=", "===", "EQ", "Contains", "in", "like", "<"} {
		refuse(t, scope(`{"key":"k","operator":"`+operator+`","values":["x"]}`), at+"/operator AGN034-4.4-b")
	}
	refuse(t, scope(`{"key":"k","operator":"==","values":[]}`), at+"/values AGN034-4.4-a")
	refuse(t, scope(`{"key":"k","operator":"==","values":["x",1,null]}`), at+"/values/1 AGN034-4.4-a", at+"/values/2 AGN034-4.4-a")
	refuse(t, userTurn(`"instruction":"hi","ragScope":{}`), "/ragScope/conditions AGN034-4.4-a")
	refuse(t, userTurn(`"instruction":"hi","ragScope":"repo"`), "/ragScope AGN034-4.4-a")
}
