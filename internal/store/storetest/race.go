//go:build race

package storetest

// passedBy is how many of the hostile values are passed by for one that is tried: the
// race detector makes all of them a matter of minutes.
const passedBy = 7
