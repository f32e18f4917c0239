package server

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
)

func idSchema() *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: `^[A-Za-z0-9_.-]{1,128}$`}
}

func modeKeySchema() *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: `^[a-z0-9_]+$`}
}

// closedSets are the string types whose values are all known.
func closedSets() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[agent.TurnState]():       {agent.TurnAccepted, agent.TurnRunning, agent.TurnWaiting, agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled},
		reflect.TypeFor[agent.ToolOutcome]():     {agent.OutcomeOK, agent.OutcomeError, agent.OutcomeUnknown, agent.OutcomeDenied, agent.OutcomeExpired, agent.OutcomeCancelled},
		reflect.TypeFor[agent.Decision]():        {agent.DecisionApprove, agent.DecisionDeny, agent.DecisionStay, agent.DecisionSwitch, agent.DecisionSwitchAndBranch, agent.DecisionExpired},
		reflect.TypeFor[agent.Actor]():           {agent.ActorModel, agent.ActorUser},
		reflect.TypeFor[agent.Concurrency]():     {agent.ConcurrencyReject, agent.ConcurrencyQueue, agent.ConcurrencyInterrupt},
		reflect.TypeFor[agent.AuditAction]():     sortedOf(agent.AuditActions()),
		reflect.TypeFor[agent.WebhookEvent]():    sortedOf(append(agent.WebhookEvents(), agent.WebhookTest)),
		reflect.TypeFor[agent.DeliveryOutcome](): {agent.DeliveryPending, agent.DeliveryDelivered, agent.DeliveryFailed},
		reflect.TypeFor[agent.Role]():            {agent.RoleUser, agent.RoleOperator, agent.RoleAdmin, agent.RoleServer},
		reflect.TypeFor[ErasureState]():          {ErasureRunning, ErasureFinished},
		reflect.TypeFor[mode.Status]():           {mode.StatusActive, mode.StatusExperimental, mode.StatusDeprecated},
		reflect.TypeFor[agent.Kind]():            sorted(meanings),
	}
}

func sortedOf[T ~string](values []T) []any {
	var out []any
	for _, v := range slices.Sorted(slices.Values(values)) {
		out = append(out, v)
	}
	return out
}

func sorted(m map[agent.Kind]meaning) []any {
	var out []any
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k)
	}
	return out
}

// schemas are the generated schemas, to which is added what Go types cannot say. A
// member that this file names and no type has is an error, so that a rename does not
// leave the document without its constraints.
type schemas struct {
	reg huma.Registry
	err error
}

// finishSchemas completes the schemas of a registry.
func finishSchemas(reg huma.Registry) error {
	sets := closedSets()
	for name, s := range reg.Map() {
		t := reg.TypeFromRef(schemaRef + name)
		for _, f := range reflect.VisibleFields(t) {
			if p := s.Properties[jsonName(f)]; p != nil {
				constrain(p, f.Type, sets)
				p.Nullable = f.Tag.Get("nullable") == "true"
			}
		}
	}
	s := &schemas{reg: reg}
	s.userTurn()
	s.toolContinuation()
	s.sessionBodies()
	s.answers()
	reg.Map()["Event"] = eventSchema()
	return s.err
}

// named returns a schema by its name.
func (s *schemas) named(name string) *huma.Schema {
	if found := s.reg.Map()[name]; found != nil {
		return found
	}
	s.err = errors.Join(s.err, fmt.Errorf("OpenAPI document: there is no schema %s", name))
	return &huma.Schema{}
}

// property returns a property of a schema.
func (s *schemas) property(schema, name string) *huma.Schema {
	if p := s.named(schema).Properties[name]; p != nil {
		return p
	}
	s.err = errors.Join(s.err, fmt.Errorf("OpenAPI document: schema %s has no property %s", schema, name))
	return &huma.Schema{}
}

// constrain narrows a property by its Go type. Arrays are never null here.
func constrain(p *huma.Schema, t reflect.Type, sets map[reflect.Type][]any) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[agent.SessionID](), reflect.TypeFor[agent.TurnID]():
		p.Pattern = idSchema().Pattern
	case reflect.TypeFor[agent.ModeKey]():
		p.Pattern = modeKeySchema().Pattern
	default:
		if values, ok := sets[t]; ok {
			p.Enum = values
		}
		if t.Kind() == reflect.Slice && p.Items != nil {
			if values, ok := sets[t.Elem()]; ok {
				p.Items.Enum = values
			}
		}
	}
}

// jsonName returns the name under which a field is written.
func jsonName(f reflect.StructField) string {
	tag := f.Tag.Get("json")
	for i, c := range tag {
		if c == ',' {
			return tag[:i]
		}
	}
	return tag
}

func enum[T ~string](p *huma.Schema, values ...T) {
	for _, v := range values {
		p.Enum = append(p.Enum, v)
	}
}

// userTurn describes AGN-034 §2.1.
func (s *schemas) userTurn() {
	u := s.named("UserTurn")
	u.Description = "A new turn. At least one of instruction, inputArtifacts and clipboardImages is there and says something."
	u.AnyOf = []*huma.Schema{
		{Required: []string{"instruction"}}, {Required: []string{"inputArtifacts"}}, {Required: []string{"clipboardImages"}},
	}
	s.property("UserTurn", "instruction").Description = "Markdown."
	s.property("UserTurn", "turnId").Description = "Chosen by the client, fresh for every turn; the idempotency key. A UUIDv7 does well."
	s.property("UserTurn", "solutionContextText").Description = "Replaces the session's; absent leaves it as it is."
	s.property("UserTurn", "stream").Description = "Whether the answer is streamed. Delivery only; the outcome is the same."
	for _, name := range []string{"workspaceId", "repository", "language"} {
		s.property("UserTurn", name).Description = "A hint; nothing depends on it."
	}

	a := s.named("Artifact")
	delete(a.Properties, "sha256") // of the stored form
	a.Required = []string{"relativePath", "fileName", "contents", "origin"}
	s.property("Artifact", "relativePath").Description = "Below the opened root folder; never absolute, never out of it."
	enum(s.property("Artifact", "origin"), "ide", "user")
	enum(s.property("Artifact", "encoding"), "utf8", "base64")
	s.property("Artifact", "encoding").Default = "utf8"

	i := s.named("Image")
	delete(i.Properties, "sha256")
	i.Required = []string{"id", "mimeType", "dataBase64"}
	enum(s.property("Image", "mimeType"), "image/png", "image/jpeg", "image/gif", "image/webp")
	s.property("Image", "dataBase64").ContentEncoding = "base64"

	s.named("RAGScope").Description = "Narrows retrieval; all conditions must hold. Advisory."
	s.property("RAGCondition", "key").Pattern = `^[A-Za-z0-9_.-]{1,64}$`
	enum(s.property("RAGCondition", "operator"), "==", "!=", "contains", "does_not_contain")
	s.property("RAGCondition", "values").MinItems = new(1)
}

// toolContinuation describes AGN-034 §2.2 and §5.
func (s *schemas) toolContinuation() {
	u := s.named("ToolContinuation")
	u.Description = "The results of the client tools that a waiting turn asked for: all of them, in the order of its toolCalls. Any mismatch refuses the whole."
	s.property("ToolContinuation", "turnId").Description = "The waiting turn."
	s.property("ToolContinuation", "toolResults").MinItems = new(1)

	r := s.named("ToolResult")
	r.OneOf = []*huma.Schema{{Required: []string{"resultJson"}}, {Required: []string{"errorMessage"}}}
	s.property("ToolResult", "executionMs").Minimum = new(0.0)
	s.property("ToolResult", "resultJson").Description = "A JSON text."
	s.property("ToolResult", "errorMessage").MinLength = new(1)
}

// sessionBodies describes what creates and changes sessions (decisions 4 and 5).
func (s *schemas) sessionBodies() {
	tools := func(schema string) {
		p := s.property(schema, "tools")
		p.Type, p.Items = huma.TypeArray, &huma.Schema{Type: huma.TypeObject}
		if p.Description == "" {
			p.Description = "Function tools that the client runs, in the Responses form or the nested chat form."
		}
	}
	for _, schema := range []string{"CreateSession", "SetTools", "Session", "Preview"} {
		tools(schema)
	}
	s.property("CreateSession", "mode").Description = "The initial mode; general when absent."
	s.property("SetMode", "reason").MinLength = new(1)
	s.property("BranchSession", "mode").Description = "The new session's mode; its parent's when absent."
	s.property("BranchSession", "atTurnId").Description = "The last turn that the new session remembers; the last completed one when absent."
	s.property("Verdict", "decision").Description = "One of the approval's options."
	s.property("Verdict", "remember").Description = "Approve the tool for the rest of the session, where the approval offers it."
	events := s.property("CreateWebhook", "events")
	events.MinItems, events.Items.Enum = new(1), sortedOf(agent.WebhookEvents())
	s.property("CreateWebhook", "url").Description = "Where the messages are posted: public, and https, unless the operator allows others."
	s.property("Tool", "parameters").Type = huma.TypeObject
}

// answers describes the two kinds of answer and where they turn up (decision 7).
func (s *schemas) answers() {
	enum(s.property("Final", "kind"), contract.AnswerFinal)
	enum(s.property("ClientToolContinuation", "kind"), contract.AnswerClientTools)
	for _, schema := range []string{"Final", "ClientToolContinuation"} {
		s.property(schema, "mode").Description = "The session's mode by now, authoritative."
	}
	s.property("ToolCall", "argumentsJson").Description = "As the model wrote it; it may be malformed."
	s.property("Turn", "response").OneOf = ref("Final", "ClientToolContinuation")
	p := s.property("Problem", "type")
	p.Pattern = "^urn:aptix:problem:[a-z_]+$"
	s.property("Violation", "pointer").Description = "The JSON pointer of the offending member."
	s.property("Violation", "rule").Description = "The id of the broken rule, such as AGN034-2.1-f."
}

func ref(names ...string) []*huma.Schema {
	var out []*huma.Schema
	for _, n := range names {
		out = append(out, &huma.Schema{Ref: schemaRef + n})
	}
	return out
}

// eventStream describes the body of a stream, which is text; what stands in its data
// lines is an Event.
func eventStream() *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Description: "Server-sent events. event: is the type, id: the sequence, data: an Event as JSON. Comments are heartbeats.",
		Extensions: map[string]any{"x-event-data": &huma.Schema{Ref: schemaRef + "Event"}},
	}
}

// optionalMembers are the members that an event may have.
func optionalMembers() map[agent.EventType]map[string]*huma.Schema {
	return map[agent.EventType]map[string]*huma.Schema{
		agent.EventTurnStarted:     {"welcomeMessage": {Type: huma.TypeString}},
		agent.EventModeChanged:     {"welcomeMessage": {Type: huma.TypeString}},
		agent.EventApprovalDecided: {"decidedBy": {Type: huma.TypeString}, "remember": {Type: huma.TypeBoolean}},
	}
}

// eventMembers are the members that an event has beyond type, sequence, sessionId
// and turnId; all of them are always there.
func eventMembers() map[agent.EventType]map[string]*huma.Schema {
	text := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
	number := func(least float64) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Minimum: &least} }
	sha := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9a-f]{64}$"} }
	outcome := &huma.Schema{Type: huma.TypeString, Enum: closedSets()[reflect.TypeFor[agent.ToolOutcome]()]}
	entered := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"mode", "ready"},
		Properties: map[string]*huma.Schema{"mode": modeKeySchema(), "ready": {Type: huma.TypeBoolean}, "problem": text()}}
	decision := &huma.Schema{Type: huma.TypeString, Enum: closedSets()[reflect.TypeFor[agent.Decision]()]}
	return map[agent.EventType]map[string]*huma.Schema{
		agent.EventTurnQueued:       {},
		agent.EventTurnStarted:      {},
		agent.EventModelRequest:     {"n": number(1), "canonicalSha256": sha(), "wireSha256": sha()},
		agent.EventTextDelta:        {"text": text()},
		agent.EventToolStarted:      {"toolCallId": text(), "name": text()},
		agent.EventToolFinished:     {"toolCallId": text(), "name": text(), "outcome": outcome, "ms": number(0)},
		agent.EventModeChanged:      {"previousMode": modeKeySchema(), "mode": modeKeySchema(), "branch": {Type: huma.TypeBoolean}, "reason": text()},
		agent.EventModeEntered:      {"entry": entered},
		agent.EventApprovalRequired: {"approval": ref("Approval")[0]},
		agent.EventApprovalDecided:  {"approvalId": text(), "toolCallId": text(), "decision": decision},
		agent.EventTurnResumed:      {"replaceFrom": number(1)},
		agent.EventTurnCompleted:    {"response": ref("Final")[0]},
		agent.EventTurnWaiting:      {"response": ref("ClientToolContinuation")[0]},
		agent.EventTurnFailed:       {"problem": ref("Problem")[0]},
		agent.EventTurnCancelled:    {},
	}
}

// eventSchema describes the data of every event that there is, by its type.
func eventSchema() *huma.Schema {
	s := &huma.Schema{Description: "The data of one event of a turn's stream. The sequence is 1, 2, 3 … without gaps within a turn."}
	members, optional := eventMembers(), optionalMembers()
	for _, kind := range slices.Sorted(maps.Keys(members)) {
		e := &huma.Schema{
			Type: huma.TypeObject, Title: string(kind), AdditionalProperties: false,
			Required: []string{"type", "sequence", "sessionId", "turnId"},
			Properties: map[string]*huma.Schema{
				"type":      {Type: huma.TypeString, Enum: []any{kind}},
				"sequence":  {Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0)},
				"sessionId": idSchema(), "turnId": idSchema(),
			},
		}
		for _, name := range slices.Sorted(maps.Keys(members[kind])) {
			e.Required = append(e.Required, name)
			e.Properties[name] = members[kind][name]
		}
		maps.Copy(e.Properties, optional[kind])
		s.OneOf = append(s.OneOf, e)
	}
	return s
}
