//go:build race

package main

// raceDetector tells that the binary that the tests run is several times as large and slow
// as the one that people run.
const raceDetector = true
