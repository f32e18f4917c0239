//go:build race

package recall_test

// few is how many questions are asked under the race detector, of the part of the
// repository that corpus names: it makes the comparison of vectors some thirty times as
// slow. They tell nothing of recall.
const (
	few    = 5
	corpus = "internal/rag"
)
