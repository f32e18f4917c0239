//go:build !race

package recall_test

// few is how many questions are asked: 0 is all of them.
const few = 0
