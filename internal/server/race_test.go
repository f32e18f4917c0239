//go:build race

package server

// passedBy is how many damages are passed by for one that is done: the race detector makes
// all of them a matter of minutes.
const passedBy = 7
