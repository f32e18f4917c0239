// Package streams holds the tests of streams as their readers see them, over real
// connections and through both doors: readers that are cut anywhere, that stall, that
// come back all at once, and ten thousand that just stay.
package streams
