package acceptance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/prove"
)

// Run is what a test run did, from the output of go test -json.
type Run struct {
	// Passed, Failed and Skipped count tests and subtests. A package that failed
	// without a failing test, as one that does not compile, counts as one failed.
	Passed, Failed, Skipped int
	// Warnings are the distinct texts that tests logged behind "WARNING: ".
	Warnings []string

	outcomes map[name]string // pass, fail or skip
	proofs   map[proof]bool
	reasons  map[name]string // what a test said last: of a skipped one, why
}

// name is a test or subtest of a package; test is empty for the package itself.
type name struct{ pkg, test string }

// proof is a rule's mark in the output of a test.
type proof struct {
	name
	rule string
}

// ReadRun reads the output of go test -json.
func ReadRun(r io.Reader) (Run, error) {
	run := Run{outcomes: make(map[name]string), proofs: make(map[proof]bool), reasons: make(map[name]string)}
	warnings := make(map[string]bool)
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var e struct{ Action, Package, Test, Output, Key, Value string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Run{}, fmt.Errorf("read the test run: %w", err)
		}
		at := name{e.Package, e.Test}
		switch e.Action {
		case "pass", "fail", "skip":
			run.outcomes[at] = e.Action
		case "attr":
			if e.Key == prove.Attr {
				run.proofs[proof{at, e.Value}] = true
			}
		case "output":
			run.heard(at, e.Output, warnings)
		}
	}
	run.Warnings = slices.Sorted(maps.Keys(warnings))
	run.count()
	return run, nil
}

// heard keeps of a line of output what a reader of the summary wants: warnings, and
// the last words of each test. Lines that the framework prints are not words.
func (r *Run) heard(at name, line string, warnings map[string]bool) {
	if _, text, ok := strings.Cut(line, ".go:"); ok {
		if _, text, ok = strings.Cut(text, ": "); ok {
			r.reasons[at] = strings.TrimSpace(text)
			if w, ok := strings.CutPrefix(text, "WARNING: "); ok {
				warnings[strings.TrimSpace(w)] = true
			}
		}
	}
}

func (r *Run) count() {
	failing := make(map[string]bool)
	for n, outcome := range r.outcomes {
		switch {
		case n.test == "":
		case outcome == "pass":
			r.Passed++
		case outcome == "skip":
			r.Skipped++
		default:
			r.Failed++
			failing[n.pkg] = true
		}
	}
	for n, outcome := range r.outcomes {
		if n.test == "" && outcome == "fail" && !failing[n.pkg] {
			r.Failed++
		}
	}
}

// Skips lists the skipped tests, each with what it said.
func (r Run) Skips() []string {
	var out []string
	for n, outcome := range r.outcomes {
		if n.test != "" && outcome == "skip" {
			out = append(out, fmt.Sprintf("%s %s: %s", n.pkg, n.test, r.reasons[n]))
		}
	}
	slices.Sort(out)
	return out
}

// Unproved returns the claims that the run does not bear out, one line each. A claim
// holds when its test passed and it, or a subtest of it that passed, named the rule.
func (r Run) Unproved(module string, claims []Claim) []string {
	var out []string
	for _, c := range claims {
		pkg := path.Join(module, c.Test.Dir)
		switch outcome := r.outcomes[name{pkg, c.Test.Name}]; {
		case outcome == "":
			out = append(out, fmt.Sprintf("%s did not run, and is to prove %s", c.Test, c.Rule))
		case outcome != "pass":
			out = append(out, fmt.Sprintf("%s: %s, and is to prove %s", c.Test, outcome, c.Rule))
		case !r.proved(pkg, c):
			out = append(out, fmt.Sprintf("%s passed without reaching the place where it proves %s", c.Test, c.Rule))
		}
	}
	return out
}

func (r Run) proved(pkg string, c Claim) bool {
	for p := range r.proofs {
		within := p.test == c.Test.Name || strings.HasPrefix(p.test, c.Test.Name+"/")
		if p.pkg == pkg && p.rule == c.Rule && within && r.outcomes[p.name] == "pass" {
			return true
		}
	}
	return false
}
