package contract

// Request is the body of POST /v1/agent/execute: one of its two scenarios, the other
// member is nil (AGN-034 §2).
type Request struct {
	User         *UserTurn
	Continuation *ToolContinuation
}

// DecodeExecute reads the body of POST /v1/agent/execute. What a body is, is told by
// its members alone: one that has tool results is a continuation, every other one is a
// user turn (AGN-034 §3). A refused body gives an agent.Error that lists every
// violation; one over its limit is KindPayloadTooLarge.
func DecodeExecute(body []byte, lim Limits) (Request, error) {
	lim = lim.withDefaults()
	o, err := open(body, lim, "AGN034-2-a")
	if err != nil {
		return Request{}, err
	}
	var r Request
	if o.says("toolResults") {
		r.Continuation = readContinuation(o)
	} else {
		r.User = readUserTurn(o, lim)
	}
	if err := o.faults.err(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// DecodePreview reads the body of POST /v1/agent/preview: always a user turn.
func DecodePreview(body []byte, lim Limits) (*UserTurn, error) {
	lim = lim.withDefaults()
	o, err := open(body, lim, "AGN034-2-a")
	if err != nil {
		return nil, err
	}
	u := readUserTurn(o, lim)
	if err := o.faults.err(); err != nil {
		return nil, err
	}
	return u, nil
}

// serverOwned are the members that clients of other systems, and of the older
// documents, would put into a request, and that AGN-034 keeps on the server
// (decision 2). They are named so that the answer can say where each belongs.
var serverOwned = []struct {
	member             string
	user, continuation string // the rule it breaks in each scenario
	belongs            string
}{
	{"mode", "AGN034-2.1-f", "AGN034-3-c", "the mode is owned by the server. Create the session with it (POST /v1/sessions) or change it with PUT /v1/sessions/{sessionId}/mode."},
	{"conversationId", "AGN034-2.1-g", "AGN034-3-f", "sessionId names the conversation; the server keeps the provider's own ids."},
	{"responseContinuationId", "AGN034-2.1-g", "AGN034-3-f", "the server keeps the provider's continuation; sessionId is enough."},
	{"previousResponseId", "AGN034-2.1-g", "AGN034-3-f", "the server keeps the provider's continuation; sessionId is enough."},
	{"correlationId", "AGN034-3-e", "AGN034-3-e", "sessionId and turnId name the exchange, and the server makes up its own correlation ids."},
	{"diagnostics", "AGN034-3-d", "AGN034-3-d", "diagnostics are read from GET /v1/sessions/{sessionId}/turns/{turnId}/requests."},
	{"tools", "AGN034-1-b", "AGN034-1-b", "register client tools on the session, with POST /v1/sessions or PUT /v1/sessions/{sessionId}/tools."},
	{"toolsJson", "AGN034-1-b", "AGN034-1-b", "register client tools on the session, with POST /v1/sessions or PUT /v1/sessions/{sessionId}/tools."},
	{"toolResultsJson", "AGN034-5-a", "AGN034-5-a", "results go into toolResults of a tool continuation."},
	{"systemPrompt", "AGN034-1-b", "AGN034-2.2-d", "create the session with it (POST /v1/sessions)."},
	{"toolChoiceName", "AGN034-1-b", "AGN034-1-b", "which tool to use is settled between the mode and the model; ask for it in the instruction."},
}
