// Package llmtest plays the model provider in tests: a Responses API over real HTTP
// that answers from a script, so that the client, the reasoner and the whole server
// run as they are and the bytes that a model would get are part of the test.
//
// It is a strict judge. Every request must fit OpenAI's schema and OpenAI's own Go
// client must be able to read it, or the test fails. It has the memory of the real
// service, and its temper: an unknown previous_response_id, a function call without
// its output, an output without its call, a reasoning item torn from what followed
// it, are refused with the errors that the real one gives, and take no reply out of
// the script.
//
// Streams carry the full sequence of events of the API, in order. A slow reader is
// waited for. A test decides with Reply.Cut that events are lost and with Forget
// that the provider restarted with an empty memory.
package llmtest
