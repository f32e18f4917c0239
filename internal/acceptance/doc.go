// Package acceptance ties the numbered rules of the specification to the tests that
// prove them. It reads the rules (docs/rules.md), finds in the source which tests
// claim them (prove.Rule, and "proves:" lines in scenario files), and writes the
// table docs/acceptance.md. Its own tests fail when the table is stale, when a rule
// that a server can enforce has no test, or when any other rule has neither a test
// nor a reason. The command in the folder ran closes the circle: it reads the output
// of a test run and fails when a test in the table did not run and pass.
//
// It has no part in a turn.
package acceptance
