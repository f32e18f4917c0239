// Package rag finds the passages of indexed documents that fit a turn's question, within
// the scope of its request and the hints of its mode, and writes them into the [CONTEXT]
// block. In a turn it stands after the tools are frozen and before the model is first
// asked (AGN-011, decision 10). What keeps the indexes and makes the vectors are packages
// below it.
package rag

import (
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Admits reports whether a document with this metadata lies within the scope: all
// conditions hold (AGN-034 §4.4). A key may have several values, like tags, and
// comparison is exact, letter by letter:
//
//	==                 one of the document's values equals one of the condition's
//	!=                 none does
//	contains           one of the document's values contains one of the condition's
//	does_not_contain   none does
//
// So a document without the key fails the first and third and passes the others. A
// scope is advice: none, or one without conditions, admits everything. The contract
// refuses other operators; one that comes this far admits nothing, since nobody
// knows what it meant to keep out.
func Admits(scope *agent.RAGScope, meta map[string][]string) bool {
	if scope == nil {
		return true
	}
	for _, c := range scope.Conditions {
		if !holds(c, meta[c.Key]) {
			return false
		}
	}
	return true
}

func holds(c agent.RAGCondition, values []string) bool {
	equal := func(a, b string) bool { return a == b }
	switch c.Operator {
	case agent.RAGEquals:
		return anyPair(values, c.Values, equal)
	case agent.RAGNotEquals:
		return !anyPair(values, c.Values, equal)
	case agent.RAGContains:
		return anyPair(values, c.Values, strings.Contains)
	case agent.RAGDoesNotContain:
		return !anyPair(values, c.Values, strings.Contains)
	}
	return false
}

// anyPair reports whether ok holds for one of a with one of b.
func anyPair(a, b []string, ok func(a, b string) bool) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return ok(x, y) })
	})
}
