// Package pipeline takes a turn from the request to its end: open (the session
// created or loaded, its mode normalised, the tools frozen, the turn journalled),
// reason, settle. It owns the goroutines in which turns run: a turn goes on when
// its client hangs up, ends by answer, fault, cancel or deadline, and is taken up
// again from its journal when a process died over it.
package pipeline
