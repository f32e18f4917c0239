package agent

import "context"

type (
	// OrgID names the tenant that owns a thing. It comes from the credential,
	// never from a request body.
	OrgID string
	// UserID names the person or program behind a call, within an OrgID.
	UserID string
	// SessionID names a session within its organisation (decision 3).
	SessionID string
	// TurnID names a turn within its session. The client chooses it and it is
	// the turn's idempotency key (decision 3).
	TurnID string
	// CallID is the provider's id of one tool call, unique within a turn.
	CallID string
	// ModeKey is the stable key of a mode, [a-z0-9_]+.
	ModeKey string
)

// TurnKey is the full name of a turn; every journal row begins with it.
type TurnKey struct {
	Org     OrgID
	Session SessionID
	Turn    TurnID
}

// String renders the key for logs.
func (k TurnKey) String() string {
	return string(k.Org) + "/" + string(k.Session) + "/" + string(k.Turn)
}

const maxID = 128

// ValidID reports whether s may name a session or a turn: 1 to 128 characters of
// [A-Za-z0-9_.-] (decision 3).
func ValidID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}

// Role says what a caller may do in its organisation. Each one may do what those before
// it may.
type Role string

// The roles.
const (
	// RoleUser runs sessions of its own, and sees no others.
	RoleUser Role = "user"
	// RoleOperator sees and runs every session of the organisation.
	RoleOperator Role = "operator"
	// RoleAdmin also says who may do what in the organisation.
	RoleAdmin Role = "admin"
)

// Includes reports whether a caller of role r may do what one of role least may. A role
// that does not exist may do nothing.
func (r Role) Includes(least Role) bool {
	rank := map[Role]int{RoleUser: 1, RoleOperator: 2, RoleAdmin: 3}
	return rank[r] > 0 && rank[least] > 0 && rank[r] >= rank[least]
}

// Caller is who makes a call, as its credential says and nothing else.
type Caller struct {
	Org  OrgID
	User UserID
	// Role is empty for what the server does by itself in the name of a user.
	Role Role
	// Key is the API key that says so; empty for tokens, and where nobody authenticates.
	Key KeyID
}

// Local returns the caller of a server on which nobody authenticates: everything belongs
// to it.
func Local() Caller { return Caller{Org: "local", User: "local", Role: RoleAdmin} }

type callerKey struct{}

// WithCaller returns a context for what is done in the name of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerIn returns whose name something is done in; ok is false when nobody said.
func CallerIn(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// OnlyOwn reports whether the caller sees no sessions but those that it created: only who
// is known to see more does, and what the server does by itself.
func (c Caller) OnlyOwn() bool { return c.Role != "" && !c.Role.Includes(RoleOperator) }

// Sees reports whether a session is there for the caller.
func (c Caller) Sees(s Session) bool {
	return s.Org == c.Org && (!c.OnlyOwn() || s.CreatedBy == c.User)
}
