package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
)

// SHA256 is the hash of the turn in canonical form, in lower hex. Two bodies that say
// the same have the same hash, whatever their spelling, order and white space; it is
// what makes a TurnID an idempotency key (decision 3).
func (u UserTurn) SHA256() string { return hash(storedTurn(u)) }

// SHA256 is the hash of the continuation in canonical form, in lower hex: the same
// submission again is told by it (decision 9).
func (c ToolContinuation) SHA256() string { return hash(c) }

// storedTurn is a UserTurn without its methods, so that it is written member by member
// as the vocabulary says: contents and hashes only where they are set.
type storedTurn UserTurn

// Stored returns the turn as the journal keeps it, the contents of artifacts and
// images replaced by their hashes, and what was replaced, each blob once. Restore is
// its inverse.
func (u UserTurn) Stored() (json.RawMessage, []agent.Blob) {
	var blobs []agent.Blob
	keep := func(data []byte, mimeType string) string {
		id := sum(data)
		if !slices.ContainsFunc(blobs, func(b agent.Blob) bool { return b.SHA256 == id }) {
			blobs = append(blobs, agent.Blob{SHA256: id, MimeType: mimeType, Data: data})
		}
		return id
	}
	s := storedTurn(u)
	s.InputArtifacts = slices.Clone(u.InputArtifacts)
	for i := range s.InputArtifacts {
		a := &s.InputArtifacts[i]
		a.SHA256, a.Contents = keep(decoded(a.Contents, a.Encoding == encodingBase64), a.MimeType), ""
	}
	s.ClipboardImages = slices.Clone(u.ClipboardImages)
	for i := range s.ClipboardImages {
		im := &s.ClipboardImages[i]
		im.SHA256, im.DataBase64 = keep(decoded(im.DataBase64, true), im.MimeType), ""
	}
	stored, err := encode(s)
	if err != nil { // strings, booleans and their lists always encode
		return nil, nil
	}
	return stored, blobs
}

// Restore returns the turn that Stored took apart. blob finds the data of a hash.
func Restore(stored json.RawMessage, blob func(sha256 string) ([]byte, error)) (UserTurn, error) {
	var u UserTurn
	if err := json.Unmarshal(stored, &u); err != nil {
		return UserTurn{}, fmt.Errorf("read stored turn: %w", err)
	}
	for i := range u.InputArtifacts {
		a := &u.InputArtifacts[i]
		data, err := blob(a.SHA256)
		if err != nil {
			return UserTurn{}, fmt.Errorf("restore artifact %s: %w", a.RelativePath, err)
		}
		a.SHA256, a.Contents = "", encoded(data, a.Encoding == encodingBase64)
	}
	for i := range u.ClipboardImages {
		im := &u.ClipboardImages[i]
		data, err := blob(im.SHA256)
		if err != nil {
			return UserTurn{}, fmt.Errorf("restore image %s: %w", im.ID, err)
		}
		im.SHA256, im.DataBase64 = "", encoded(data, true)
	}
	return u, nil
}

// Differing names the members in which two stored turns differ, sorted, so that a
// client whose turnId was taken can see what it sent differently. Order and white
// space do not count: a store may have rewritten them.
func Differing(a, b json.RawMessage) []string {
	was, is := members(a), members(b)
	var names []string
	for name := range was {
		if _, ok := is[name]; !ok || !reflect.DeepEqual(was[name], is[name]) {
			names = append(names, name)
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// members returns nothing for what is no JSON object, which then differs in all.
func members(stored json.RawMessage) map[string]any {
	var m map[string]any
	if json.Unmarshal(stored, &m) != nil {
		return nil
	}
	return m
}

// decoded returns what a contents string stands for. A turn that was read here always
// decodes; of one that was not, the string itself is kept.
func decoded(s string, isBase64 bool) []byte {
	if isBase64 {
		if data, err := base64.StdEncoding.DecodeString(s); err == nil {
			return data
		}
	}
	return []byte(s)
}

func encoded(data []byte, isBase64 bool) string {
	if isBase64 {
		return base64.StdEncoding.EncodeToString(data)
	}
	return string(data)
}

// hash is the hash of v as JSON; like encode, v always encodes here.
func hash(v any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// encode writes JSON with the members in the order of the type, and characters as they
// are, without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
