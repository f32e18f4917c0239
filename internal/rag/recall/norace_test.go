//go:build !race

package recall_test

// few is how many questions are asked, of the part of the repository that corpus names: 0
// is all of them.
const (
	few    = 0
	corpus = "."
)
