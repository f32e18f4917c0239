package contract

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
)

// object reads the members of a JSON object by name. Members that no reader named are
// faults, which done reports.
type object struct {
	at      string // JSON pointer
	members []member
	taken   []bool   // by position in members
	asked   []string // names that belong here, for near misses
	faults  *violations
}

// value is a member or an element as it is read. A value that is not present, or that
// has another type than its reader wants, reads as nothing; the fault is listed.
type value struct {
	node
	at      string
	present bool // null is not
	faults  *violations
}

// get returns a member by its camelCase name. The documents' own spelling, SessionId
// for sessionId, is an alias; both at once are a fault (decision 1).
func (o *object) get(name string) value {
	o.asked = append(o.asked, name)
	return o.find(name)
}

func (o *object) find(name string) value {
	found := value{at: o.at + "/" + name, faults: o.faults}
	first := ""
	for i, m := range o.members {
		if !spells(m.name, name) {
			continue
		}
		o.taken[i] = true
		at := o.at + "/" + m.name
		if first != "" {
			o.faults.add(at, ruleJSON, "%s and %s are the same member; keep one of them.", first, m.name)
			continue
		}
		first = m.name
		found.node, found.at, found.present = m.value, at, m.value.kind != jsontext.KindNull
	}
	return found
}

// says reports whether a member has something to say, and takes nothing.
func (o *object) says(name string) bool {
	return slices.ContainsFunc(o.members, func(m member) bool {
		return spells(m.name, name) && value{node: m.value, present: m.value.kind != jsontext.KindNull}.filled()
	})
}

// spells reports whether a client may write written for name: as it is, or with the
// first letter in upper case.
func spells(written, name string) bool {
	if written == "" || written[1:] != name[1:] {
		return false
	}
	return written[0] == name[0] || written[0] == name[0]-'a'+'A'
}

// need is get for a member that must be there.
func (o *object) need(name, rule string) value {
	v := o.get(name)
	if !v.present {
		v.fault(rule, "is required.")
	}
	return v
}

// forbid refuses a member that belongs elsewhere; why says where.
func (o *object) forbid(name, rule, why string) {
	if v := o.find(name); v.present {
		v.fault(rule, "does not belong here: %s", why)
	}
}

// forbidList is forbid for a list, of which an empty one says nothing.
func (o *object) forbidList(name, rule, why string) {
	if v := o.find(name); v.filled() {
		v.fault(rule, "does not belong here: %s", why)
	}
}

// done refuses the members that no reader named. what names the object for people.
func (o *object) done(what string) {
	for i, m := range o.members {
		if o.taken[i] {
			continue
		}
		at := o.at + "/" + escape(m.name)
		// Names that differ in case only are near misses, and never matches: a loose
		// match would be a way around the forbidden members.
		if near := slices.IndexFunc(o.asked, func(name string) bool { return strings.EqualFold(name, m.name) }); near >= 0 {
			o.faults.add(at, ruleUnknown, "%s is not a member of %s; it is spelled %s.", quote(m.name), what, o.asked[near])
			continue
		}
		o.faults.add(at, ruleUnknown, "%s is not a member of %s; leave it out.", quote(m.name), what)
	}
}

// fault adds a violation at this value. The message goes on from the member's name.
func (v value) fault(rule, format string, args ...any) {
	name := v.at[strings.LastIndexByte(v.at, '/')+1:]
	switch _, err := strconv.Atoi(name); {
	case v.at == "":
		name = "The body"
	case err == nil: // an element; name its array too
		name = v.at[strings.LastIndexByte(v.at[:len(v.at)-len(name)-1], '/')+1:]
	}
	v.faults.add(v.at, rule, name+" "+format, args...)
}

// filled reports whether the value says something: null and an empty list do not
// (decision 2).
func (v value) filled() bool {
	return v.present && (v.kind != jsontext.KindBeginArray || len(v.elements) > 0)
}

// is reports whether the value is there and has the kind; another kind is a fault.
func (v value) is(rule, want string, kinds ...jsontext.Kind) bool {
	if !v.present {
		return false
	}
	if slices.Contains(kinds, v.kind) {
		return true
	}
	v.fault(rule, "must be %s, not %s.", want, kindName(v.kind))
	return false
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "a boolean"
	}
}

func (v value) object(rule string) (*object, bool) {
	if !v.is(rule, "an object", jsontext.KindBeginObject) {
		return nil, false
	}
	return &object{at: v.at, members: v.members, taken: make([]bool, len(v.members)), faults: v.faults}, true
}

// list returns the elements of an array. An element that is null is there, and wrong.
func (v value) list(rule string) []value {
	if !v.is(rule, "an array", jsontext.KindBeginArray) {
		return nil
	}
	out := make([]value, len(v.elements))
	for i, e := range v.elements {
		out[i] = value{node: e, at: v.at + "/" + strconv.Itoa(i), present: true, faults: v.faults}
	}
	return out
}

// atMost cuts a list to its limit, so that a flood is one fault and not thousands.
func (v value) atMost(limit int, list []value) []value {
	if len(list) <= limit {
		return list
	}
	v.fault(ruleLimits, "has %d entries; at most %d are taken.", len(list), limit)
	return list[:limit]
}

// text returns a string and whether there is one.
func (v value) text(rule string) (string, bool) {
	return v.literal, v.is(rule, "a string", jsontext.KindString)
}

// str returns a string, "" when there is none.
func (v value) str(rule string) string {
	if s, ok := v.text(rule); ok {
		return s
	}
	return ""
}

// strPointer returns a string, nil when there is none.
func (v value) strPointer(rule string) *string {
	if s, ok := v.text(rule); ok {
		return &s
	}
	return nil
}

// maxID is the length of the longest id, in characters (decision 3).
const maxID = 128

// name returns an id whose syntax another party chose: not empty, not too long, no
// control characters.
func (v value) name(rule string) string {
	s, ok := v.text(rule)
	switch {
	case !ok:
		return ""
	case s == "":
		v.fault(rule, "must not be empty.")
	case utf8.RuneCountInString(s) > maxID:
		v.fault(ruleIDs, "is too long; an id has at most %d characters.", maxID)
	case strings.ContainsFunc(s, unicode.IsControl):
		v.fault(ruleIDs, "holds control characters; an id has none.")
	}
	return s
}

// id returns the id of a session or a turn (decision 3).
func (v value) id(rule string) string {
	s, ok := v.text(rule)
	switch {
	case !ok:
		return ""
	case s == "":
		v.fault(rule, "must not be empty.")
	case !agent.ValidID(s), s == ".", s == "..": // the dots cannot be addressed in a URL path
		v.fault(ruleIDs, "is %s; an id has 1 to 128 characters of A-Z a-z 0-9 _ . - and is neither \".\" nor \"..\".", quote(s))
	}
	return s
}

// oneOf returns a string of a closed set.
func (v value) oneOf(rule string, set ...string) string {
	s, ok := v.text(rule)
	if ok && !slices.Contains(set, s) {
		v.fault(rule, "is %s; it must be one of %s.", quote(s), strings.Join(set, ", "))
	}
	return s
}

// flag returns a boolean, nil when there is none.
func (v value) flag(rule string) *bool {
	if !v.is(rule, "a boolean", jsontext.KindTrue, jsontext.KindFalse) {
		return nil
	}
	b := v.kind == jsontext.KindTrue
	return &b
}

// count returns a whole number that is not negative.
func (v value) count(rule string) int64 {
	if !v.is(rule, "a number", jsontext.KindNumber) {
		return 0
	}
	n, err := strconv.ParseInt(v.literal, 10, 64)
	if err != nil || n < 0 {
		v.fault(rule, "is %s; it must be a whole number, 0 or more.", quote(v.literal))
		return 0
	}
	return n
}
