// Package quota bounds how much of the server one caller, or one organisation, may use at a
// time: requests per second, open streams, running turns, and stored sessions.
//
// It stands where a request comes in, before its body is read where that is possible, and
// counts what this process does: several nodes allow as much each. What turns spend is the
// subject of package budget.
package quota
