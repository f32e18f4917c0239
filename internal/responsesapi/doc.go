// Package responsesapi is the second door to a turn (decision 6): it takes what a
// stock client of OpenAI's Responses API sends, hands it to the pipeline as a turn or
// as tool results, and shows the turn as a response resource and as a stream of
// response events. The HTTP of it, bounds and callers included, is the server's.
//
// A conversation is a session. A response is one delivery of a turn: the first goes
// from the request to the answer or to the client's tools, the next from their results
// on. Its id says which (see responseID), so there is nothing to look it up in.
//
// What a reader of a stream can rely on:
//
//   - Order: sequence numbers are 0, 1, 2 … without gaps.
//   - Purity: events are a projection of the turn's journal and nothing else, so a
//     reader that resumes by starting_after gets the very bytes that it missed.
//   - Slow reader, lost connection: the turn goes on; the server cuts and the reader
//     resumes.
//   - Restart: the same. Text that a dead process had shown and not journalled is not
//     repeated; the last event holds the whole response and is the one to trust. A
//     stream without one was cut.
package responsesapi
