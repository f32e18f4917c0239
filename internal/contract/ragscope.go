package contract

import (
	"regexp"

	"github.com/aptixhq/aptix/internal/agent"
)

// Keys become part of a search; a closed alphabet keeps them from becoming part of its
// language.
var scopeKey = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

const maxScopeKey = 64

// readRAGScope reads ragScope (AGN-034 §4.4). A scope without conditions narrows
// nothing and is none.
func readRAGScope(v value) *agent.RAGScope {
	o, ok := v.object("AGN034-4.4-a")
	if !ok {
		return nil
	}
	scope := &agent.RAGScope{}
	for _, item := range o.need("conditions", "AGN034-4.4-a").list("AGN034-4.4-a") {
		if c, ok := item.object("AGN034-4.4-a"); ok {
			scope.Conditions = append(scope.Conditions, readCondition(c))
		}
	}
	o.done("a RAG scope")
	if len(scope.Conditions) == 0 {
		return nil
	}
	return scope
}

func readCondition(o *object) agent.RAGCondition {
	const rule = "AGN034-4.4-a"
	c := agent.RAGCondition{
		Key:      readScopeKey(o.need("key", rule)),
		Operator: o.need("operator", "AGN034-4.4-b").oneOf("AGN034-4.4-b", "==", "!=", "contains", "does_not_contain"),
	}
	values := o.need("values", rule)
	for _, item := range values.list(rule) {
		c.Values = append(c.Values, item.str(rule))
	}
	if values.present && !values.filled() {
		values.fault(rule, "must hold at least one string.")
	}
	o.done("a RAG condition")
	return c
}

func readScopeKey(v value) string {
	const rule = "AGN034-4.4-a"
	key, ok := v.text(rule)
	if ok && (len(key) > maxScopeKey || !scopeKey.MatchString(key)) {
		v.fault(rule, "is %s; a key has 1 to 64 characters of A-Z a-z 0-9 _ . -", quote(key))
	}
	return key
}
