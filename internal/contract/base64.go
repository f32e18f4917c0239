package contract

import (
	"encoding/base64"
	"strings"
)

const notBase64 = "is not base64; use the standard alphabet with padding and without line breaks (RFC 4648 §4)."

// base64Size returns the decoded size of s, and whether s is base64 in its one
// canonical form: standard alphabet, padded, no line breaks, no stray bits. Because
// only that form is taken, contents can be stored decoded and written out again
// byte for byte. It decodes piece by piece and keeps nothing.
func base64Size(s string) (int64, bool) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return 0, false
	}
	var (
		piece [4096]byte
		out   [3072]byte
		size  int64
	)
	for s != "" {
		n := copy(piece[:], s)
		s = s[n:]
		decoded, err := base64.StdEncoding.Strict().Decode(out[:], piece[:n])
		if err != nil || s != "" && decoded < len(out) { // padding in the middle
			return 0, false
		}
		size += int64(decoded)
	}
	return size, true
}
