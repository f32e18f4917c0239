package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// SHA256 returns the hash by which stored bytes are named, in lower-case hex.
func SHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Hash takes the hash that SHA256 returns of a text that comes in pieces.
type Hash struct {
	sum  hash.Hash
	room [2 << 10]byte // a hash takes bytes only; into here go those of strings
}

var hashes = sync.Pool{New: func() any { return &Hash{sum: sha256.New()} }}

// NewHash returns a hash of nothing.
func NewHash() *Hash {
	h := hashes.Get().(*Hash)
	h.sum.Reset()
	return h
}

// Bytes adds a piece.
func (h *Hash) Bytes(b []byte) { _, _ = h.sum.Write(b) } // a hash takes everything

// String adds a piece.
func (h *Hash) String(s string) {
	for len(s) > 0 {
		n := copy(h.room[:], s)
		h.Bytes(h.room[:n])
		s = s[n:]
	}
}

// Sum returns the hash, in lower-case hex. It ends the use of h.
func (h *Hash) Sum() string {
	sum := hex.EncodeToString(h.sum.Sum(h.room[:0]))
	hashes.Put(h)
	return sum
}
