package acceptance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/house"
)

// Rule is one numbered rule of the specification.
type Rule struct {
	// Document is the heading it stands under.
	Document string
	ID       string
	// Kind is M (must), G (guarantee), T (required test), ? (may or informative) or
	// X (exclusion), with the actor after a slash: S server, L model, C client. Some
	// rules of kind T and X name no actor.
	Kind string
	Text string
}

// Enforceable reports whether a server can be held to the rule, so that it must have
// a test: kinds M, G and T, unless the actor is the model or the client.
func (r Rule) Enforceable() bool {
	kind, actor, _ := strings.Cut(r.Kind, "/")
	return strings.Contains("MGT", kind) && (actor == "S" || actor == "")
}

// kinds are the cells that the column of that name may have.
const kinds = "|M/S|M/L|M/C|G/S|T|?/S|?/L|X/S|X|"

// ReadRules returns the rules of docs/rules.md in their order.
func ReadRules(document string) ([]Rule, error) {
	rows, err := house.Rows(document, "Id", "Kind/actor", "Behaviour")
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("read the rules: no table with the columns Id, Kind/actor, Behaviour")
	}
	rules := make([]Rule, len(rows))
	seen := make(map[string]bool, len(rows))
	for i, row := range rows {
		r := Rule{Document: row.Section, ID: row.Cells[0], Kind: row.Cells[1], Text: row.Cells[2]}
		switch {
		case seen[r.ID]:
			return nil, fmt.Errorf("read the rules: line %d: %s is there twice", row.Line, r.ID)
		case !strings.Contains(kinds, "|"+r.Kind+"|"):
			return nil, fmt.Errorf("read the rules: line %d: %s has the unknown kind %q", row.Line, r.ID, r.Kind)
		}
		seen[r.ID] = true
		rules[i] = r
	}
	return rules, nil
}

// ReadReasons returns, by rule, why a server cannot enforce it, from
// docs/unenforceable.md.
func ReadReasons(document string) (map[string]string, error) {
	rows, err := house.Rows(document, "Id", "Why no server can enforce it")
	if err != nil {
		return nil, fmt.Errorf("read the reasons: %w", err)
	}
	reasons := make(map[string]string, len(rows))
	for _, row := range rows {
		id, why := row.Cells[0], row.Cells[1]
		switch _, twice := reasons[id]; {
		case twice:
			return nil, fmt.Errorf("read the reasons: line %d: %s is there twice", row.Line, id)
		case why == "":
			return nil, fmt.Errorf("read the reasons: line %d: %s has no reason", row.Line, id)
		}
		reasons[id] = why
	}
	return reasons, nil
}
