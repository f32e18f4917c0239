package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names of OpenTelemetry's semantic conventions for generative AI that spans use, and
// those of our own beside them. They stand here and nowhere else: the conventions still move.
const (
	attrOperation      = attribute.Key("gen_ai.operation.name")
	attrProvider       = attribute.Key("gen_ai.provider.name")
	attrConversation   = attribute.Key("gen_ai.conversation.id")
	attrRequestModel   = attribute.Key("gen_ai.request.model")
	attrResponseID     = attribute.Key("gen_ai.response.id")
	attrInputTokens    = attribute.Key("gen_ai.usage.input_tokens")
	attrOutputTokens   = attribute.Key("gen_ai.usage.output_tokens")
	attrCachedTokens   = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrReasonedTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	attrFirstDelta     = attribute.Key("gen_ai.response.time_to_first_chunk")
	attrToolName       = attribute.Key("gen_ai.tool.name")
	attrToolCall       = attribute.Key("gen_ai.tool.call.id")
	attrErrorType      = attribute.Key("error.type")

	// What people and models wrote; only with Config.Content.
	attrInput     = attribute.Key("gen_ai.input.messages")
	attrOutput    = attribute.Key("gen_ai.output.messages")
	attrArguments = attribute.Key("gen_ai.tool.call.arguments")
	attrResult    = attribute.Key("gen_ai.tool.call.result")

	attrMode        = attribute.Key("agent.mode")
	attrModeFrom    = attribute.Key("agent.mode.from")
	attrModeTo      = attribute.Key("agent.mode.to")
	attrTurn        = attribute.Key("agent.turn.id")
	attrState       = attribute.Key("agent.turn.state")
	attrResumed     = attribute.Key("agent.turn.resumed")
	attrModelCall   = attribute.Key("agent.model_call")
	attrToolOutcome = attribute.Key("agent.tool.outcome")
	attrApproval    = attribute.Key("agent.approval.id")
	attrDecision    = attribute.Key("agent.approval.decision")
	attrPassages    = attribute.Key("agent.retrieval.passages")
	attrCalls       = attribute.Key("agent.waiting.calls")
)

// The operations.
const (
	opTurn      = "invoke_agent"
	opModel     = "chat"
	opTool      = "execute_tool"
	opRetrieval = "retrieval"
	opSettle    = "settle"
	opDelivery  = "deliver_webhook"
)

// The events of a turn's span.
const (
	eventModeChanged = "agent.mode.changed"
	eventAsked       = "agent.approval.requested"
	eventDecided     = "agent.approval.decided"
	eventWaiting     = "agent.turn.waiting"
)
