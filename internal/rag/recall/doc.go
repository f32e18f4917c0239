// Package recall measures whether retrieval finds what answers a question: the questions
// of testdata over this repository, for each method of search. No turn knows of it.
package recall
