package agent

import (
	"context"
	"time"
)

// AuditAction says what was done.
type AuditAction string

// What the audit log records.
const (
	AuditSessionCreated      AuditAction = "session.created"
	AuditSessionBranched     AuditAction = "session.branched"
	AuditSessionErased       AuditAction = "session.erased"
	AuditToolsReplaced       AuditAction = "session.tools_replaced"
	AuditModeChanged         AuditAction = "mode.changed"
	AuditApprovalDecided     AuditAction = "approval.decided"
	AuditKeyCreated          AuditAction = "key.created"
	AuditKeyRevoked          AuditAction = "key.revoked"
	AuditWebhookCreated      AuditAction = "webhook.created"
	AuditWebhookRotated      AuditAction = "webhook.rotated"
	AuditWebhookDisabled     AuditAction = "webhook.disabled"
	AuditWebhookDeleted      AuditAction = "webhook.deleted"
	AuditUserErasing         AuditAction = "user.erasing"
	AuditUserErased          AuditAction = "user.erased"
	AuditOrganisationErasing AuditAction = "organisation.erasing"
	AuditOrganisationErased  AuditAction = "organisation.erased"
	AuditConfigLoaded        AuditAction = "config.loaded"
	AuditConfigReloaded      AuditAction = "config.reloaded"
	AuditTrimmed             AuditAction = "audit.trimmed"
)

// AuditActions returns all of them.
func AuditActions() []AuditAction {
	return []AuditAction{AuditSessionCreated, AuditSessionBranched, AuditSessionErased, AuditToolsReplaced, AuditModeChanged,
		AuditApprovalDecided, AuditKeyCreated, AuditKeyRevoked, AuditWebhookCreated, AuditWebhookRotated, AuditWebhookDisabled,
		AuditWebhookDeleted, AuditUserErasing, AuditUserErased, AuditOrganisationErasing, AuditOrganisationErased,
		AuditConfigLoaded, AuditConfigReloaded, AuditTrimmed}
}

// RoleServer stands in the audit log for what the server did by itself. No caller has it.
const RoleServer Role = "server"

// ErasedUser takes the place of a user who was erased, where others go on with what he
// had a part in.
const ErasedUser UserID = "erased"

// AuditEntry is one line of an organisation's audit log: who did what, on which ids,
// when. It never has contents, and stays when what it names is erased.
type AuditEntry struct {
	Org OrgID
	// ID orders the entries by their time; the keeper gives it.
	ID     string
	At     time.Time
	Action AuditAction
	By     Origin
	// Session and Turn are where it was done, Subject is the id of anything else that it
	// was done to: an approval, a key, a webhook, a user, an erasure.
	Session SessionID
	Turn    TurnID
	Subject string
	// Details are what else is to be known: names, hashes and counts.
	Details map[string]string
}

// Origin is on whose word something is done. The zero value is the server's own.
type Origin struct {
	User UserID
	Role Role
	// Credential is the id of the credential that says so, never the credential.
	Credential string
	// Request is the id of the request, Address the client's.
	Request string
	Address string
}

type originKey struct{}

// WithOrigin returns a context in which things are done on somebody's word.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns on whose word things are done in a context: the server's where nobody
// is named.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o.named()
}

// named gives what nobody asked for to the server.
func (o Origin) named() Origin {
	if o.Role == "" {
		o.Role = RoleServer
	}
	return o
}

// Or returns the origin in the name of a user, if it has none of its own.
func (o Origin) Or(user UserID) Origin {
	if o.User == "" {
		o.User = user
	}
	return o.named()
}
