// Package server is the HTTP edge of Aptix: the first and the last thing that a turn
// meets. A request is bounded, decoded strictly and handed to the pipeline; what
// comes back is rendered as JSON, as a stream of server-sent events, or as a problem
// document. The whole URL space stands in routes.go, the OpenAPI document is
// generated from that table, and one table in problem.go turns the kind of an error
// into a status.
//
// Handlers return errors. They are rendered and logged once, in serve.go.
//
// What a reader of a stream can rely on:
//
//   - Order: events come in the order of their sequence, without gaps; id: is the
//     sequence.
//   - Slow reader: nothing is buffered for it beyond a few events and what the
//     kernel holds. When a write makes no headway for Config.WriteTimeout the
//     connection is cut. The turn goes on, and nobody else notices.
//   - Long streams: after a second the connection is taken from net/http, and comes
//     back to it when the stream is over (park.go). Nobody can tell.
//   - Lost connection: the turn goes on. A reader resumes by Last-Event-ID or
//     ?after= and gets what it missed from the journal.
//   - Restart: the same. A stream that ends without an event that ends a delivery
//     (agent.EventType.EndsDelivery) was cut; it does not say that the turn failed.
package server
