package responsesapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// responseID names one delivery of a turn. Written out it is opaque and safe in a URL,
// and it is read back without a table; the organisation is not in it, it comes from
// the credential.
type responseID struct {
	session agent.SessionID
	turn    agent.TurnID
	n       int // 1, 2, 3 … within the turn
}

const idPrefix = "resp_"

// String writes the id: a checksum, n, the length of the session's name, both names.
func (id responseID) String() string {
	body := binary.AppendUvarint(nil, uint64(id.n))
	body = append(body, byte(len(id.session)))
	body = append(body, id.session...)
	body = append(body, id.turn...)
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
	return idPrefix + base64.RawURLEncoding.EncodeToString(append(sum, body...))
}

// parseID reads what String wrote; ok is false for anything else.
func parseID(s string) (id responseID, ok bool) {
	text, found := strings.CutPrefix(s, idPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !found || err != nil || len(raw) < 4 || crc32.ChecksumIEEE(raw[4:]) != binary.BigEndian.Uint32(raw) {
		return id, false
	}
	n, size := binary.Uvarint(raw[4:])
	if size <= 0 || n < 1 || n > 1<<20 {
		return id, false
	}
	names := raw[4+size:]
	if len(names) < 1 {
		return id, false
	}
	length, names := int(names[0]), names[1:]
	if len(names) < length {
		return id, false
	}
	session, turn := string(names[:length]), string(names[length:])
	if !agent.ValidID(session) || !agent.ValidID(turn) {
		return id, false
	}
	id = responseID{agent.SessionID(session), agent.TurnID(turn), int(n)}
	// The decoder skips line breaks, and a number may be written long: a response has one
	// name.
	return id, id.String() == s
}

func (id responseID) key(by agent.Caller) agent.TurnKey {
	return agent.TurnKey{Org: by.Org, Session: id.session, Turn: id.turn}
}

// itemTag is a short name of the response, for the ids of its items.
func (id responseID) itemTag() string { return digest("item", id.String())[:24] }

func newConversation() agent.SessionID {
	return agent.SessionID("conv_" + strings.ToLower(rand.Text()))
}

func newTurn() agent.TurnID { return agent.TurnID("turn_" + strings.ToLower(rand.Text())) }

// digest is a name that the same parts always have.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
