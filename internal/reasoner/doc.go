// Package reasoner is the model/tool loop of a turn (AGN-011 §5): build, ask, run
// the server tools in call order, hand the client tools back, repeat until an
// answer. It keeps no state of its own: what it knows it reads from the turn's
// journal, so a continuation, a resumed turn and a fresh one take the same path.
//
// In a turn it stands between the pipeline, which opens and settles, and the
// packages prompt and llm, which build and send.
package reasoner
