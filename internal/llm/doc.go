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
// are applied once. Restart: there is none; the Response holds the whole answer.
//
// # Retries
//
// A Client sends a request once. A Provider sends it again, a bounded number of times,
// but only after a fault that proves that the model did nothing: no connection came
// about, or the provider refused with a status that passes (408, 409, 429, 500, 502,
// 503, 504, 529). A connection that breaks between the request and the status line
// proves nothing: the answer may have been generated, and paid for, so the fault
// stands. From a status of 2xx on nothing is ever repeated.
//
// The journal of the turn stays the authority. The reasoner asks from the journalled
// step "asked", with the very bytes that it names, and journals the answer in the step
// "answered"; the attempts in between are one Ask, and none of them begins after an
// answer was accepted. When the process dies between the two steps, the turn that is
// taken up again asks once more, since nobody can know how far the lost call got: at
// most one generation more for each such death.
//
// Retry-After is honoured in all its forms up to a cap; a longer wait goes to the
// client of the turn instead. A breaker keeps calls away from a provider that does
// nothing but fail, and the calls that are under way at once are bounded.
package llm
