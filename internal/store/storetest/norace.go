//go:build !race

package storetest

const passedBy = 0
