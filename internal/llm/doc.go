// Package llm speaks with the model. It turns the canonical request of a model call
// into the wire request that the Responses API takes (BuildWire), posts it, reads
// the answer (Client), and tells apart what an answer can be. The reasoner calls it
// once per model call of a turn.
//
// # The stream
//
// Order: an answer is a stream of text deltas in the order of the model's words,
// then exactly one Response. Slow reader: nothing is buffered; a reader who does not
// ask for the next event slows the provider down and nobody else, and the time that
// he takes does not count as the provider's silence. Lost events: the stream ends
// well only on the provider's own terminal event; everything else, a cut, a silence,
// a malformed event, a page that is no answer, is an error. Events that come twice
// are applied once. Restart: there is none; the Response holds the whole answer, and
// a request is never sent again here, since that could be paid for twice.
package llm
