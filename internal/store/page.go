package store

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// The bounds of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Page asks for a part of a list.
type Page struct {
	// Limit is the most entries to return: DefaultLimit when zero, and never more
	// than MaxLimit.
	Limit int
	// Cursor is what the previous page returned as next, empty for the first one.
	Cursor string
}

// Size returns the number of entries the page holds.
func (p Page) Size() int {
	if p.Limit == 0 {
		return DefaultLimit
	}
	return min(max(p.Limit, 1), MaxLimit)
}

// Cursor returns the cursor that stands behind the entry with this key in a list.
// The list's name is part of it, so that a cursor fits one list only. No part may
// hold a slash, which ids and numbers never do.
func Cursor(list string, key ...string) string {
	text := strings.Join(append([]string{list}, key...), "/")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// inKey is what ids and numbers are made of. A database may choke on other text.
var inKey = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// TurnList names the list of a session's turns in its cursors.
const TurnList = "turns"

// AfterTurn returns the cursor behind the turn of a session with this ordinal, so that the
// end of a long conversation can be read without its beginning.
func AfterTurn(ordinal int64) string { return Cursor(TurnList, strconv.FormatInt(ordinal, 10)) }

// After returns the key in the page's cursor, which has n parts; nil when there is
// no cursor. A cursor that this list never gave out is refused.
func (p Page) After(list string, n int) ([]string, error) {
	if p.Cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(p.Cursor)
	parts := strings.Split(string(text), "/")
	// The decoder skips line breaks; a cursor has none, so it is compared as a whole.
	if err != nil || len(parts) != n+1 || Cursor(list, parts[1:]...) != p.Cursor ||
		slices.ContainsFunc(parts[1:], func(part string) bool { return !inKey.MatchString(part) }) {
		return nil, BadCursor(err)
	}
	return parts[1:], nil
}

// BadCursor returns the fault of a cursor that cannot be read.
func BadCursor(because error) error {
	return agent.Errorf(agent.KindInvalidRequest,
		"This cursor is not one of this list. Pass the nextCursor of the page before, or none to begin at the start.").Because(because)
}
