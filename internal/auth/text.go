package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Prefix is how the text of every key begins, for those who look for leaked ones.
const Prefix = "aptix_"

// The lengths of the parts of a key's text, aptix_<id>_<secret><checksum>.
const (
	idLen       = 16
	secretLen   = 26 // 130 random bits
	checksumLen = 7
)

// alphabet keeps the order of what it writes, and has neither upper case nor underscores.
var alphabet = base32.HexEncoding.WithPadding(base32.NoPadding)

// mint returns a new id and the text of a key with it. The id begins with the second in
// which it was made.
func mint(now time.Time) (id agent.KeyID, text string) {
	var b [10]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.Unix())<<24)
	_, _ = rand.Read(b[5:]) // never fails
	id = agent.KeyID(strings.ToLower(alphabet.EncodeToString(b[:])))
	secret := strings.ToLower(rand.Text())
	body := Prefix + string(id) + "_" + secret
	return id, body + checksum(body)
}

// parse reads the text of a key. It is false for a text that nobody can have been given,
// which the checksum tells from a key without asking the store.
func parse(text string) (id agent.KeyID, secret [32]byte, ok bool) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(rest) != idLen+1+secretLen+checksumLen || rest[idLen] != '_' {
		return "", secret, false
	}
	body, sum := text[:len(text)-checksumLen], text[len(text)-checksumLen:]
	if sum != checksum(body) {
		return "", secret, false
	}
	return agent.KeyID(rest[:idLen]), hashOf(body), true
}

// hashOf returns what the store keeps of a key's text, given without its checksum. The
// secret is random and long, so a plain hash of it is as good as a slow one.
func hashOf(body string) [32]byte { return sha256.Sum256([]byte(body[len(body)-secretLen:])) }

// checksum tells a mistyped key, and is no secret.
func checksum(body string) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], crc32.ChecksumIEEE([]byte(body)))
	return strings.ToLower(alphabet.EncodeToString(b[:]))
}
