package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/aptixhq/aptix/internal/intern"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// A session says the same instructions and tools with every model request. The first time
// they stand where they are said: many sessions have one turn, and some say something else
// each time. What is said again is kept as a text of the session, and from then on rows name
// it by its hash. A branch copies the texts, so what it remembers is its own.

// minText is from how many bytes on a text is worth a row of its own.
const minText = 512

// place returns how a row of the session holds a text that has this hash: itself, or by the
// hash, with which the session has it then.
func (r *remembered) place(ctx context.Context, q *db.Queries, k store.SessionKey, text []byte, hash string) ([]byte, *string, error) {
	if hash == "" {
		return text, nil, nil
	}
	i := slices.IndexFunc(r.said, func(s said) bool { return s.sha256 == hash })
	if i < 0 {
		first := max(len(r.said)+1-maxSaid, 0)
		r.said = append(slices.Clone(r.said[first:]), said{sha256: hash})
		return text, nil, nil
	}
	if !r.said[i].kept {
		if err := q.InsertText(ctx, db.InsertTextParams{Org: k.Org, SessionID: k.Session, SHA256: hash, Data: text}); err != nil {
			return nil, nil, fmt.Errorf("text %s: %w", hash, err)
		}
		r.said = slices.Clone(r.said)
		r.said[i].kept = true
	}
	return nil, &hash, nil
}

// placed returns the text that a row holds as place has put it there.
func placed(here []byte, hash *string, text []byte) ([]byte, error) {
	switch {
	case hash == nil:
		return here, nil
	case text == nil:
		return nil, fmt.Errorf("the session has no text %s", *hash)
	}
	return text, nil
}

// hashed is a text as rows hold it, with its hash.
type hashed struct {
	text   []byte
	sha256 string
}

// heads are those of requests, which are the same for all turns of a mode.
var heads intern.Table[hashed]

func newHashed(s string) hashed {
	text := []byte(s)
	return hashed{text, hashOf(text)}
}

// hashOf returns the hash of a text that is worth a row of its own, and "" for a shorter one.
func hashOf(text []byte) string {
	if len(text) < minText {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
