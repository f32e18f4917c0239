// Package events carries the events of a running turn to those who follow it. In a
// turn it stands beside the journal: the runner appends to the turn's Log what it
// has journalled, and text as it comes in; server streams read it from there. The
// Log holds one delivery, from the moment the turn runs until it ends or waits.
//
// Order: a Log numbers its events without gaps, and every follower gets them in
// that order, each once, from wherever it starts.
//
// Slow readers: all followers read the one shared Log by position. There is no
// buffer per reader that could fill up, so a slow reader delays neither the runner
// nor anyone else, and misses nothing; how long it is waited for is up to the
// server that feeds it.
//
// Lost events: nothing is lost between Open and Close. What the Log has not got
// (earlier events, see Log.First, and everything once Hub.Follow says that nothing
// is live) is in the journal. A repeated event is dropped. An event that would
// leave a gap ends the Log, so that its followers go to the journal, which is
// always right.
//
// Restart: nothing is kept. The turn that another process takes up again has a new
// Log that begins behind what the journal holds.
package events
