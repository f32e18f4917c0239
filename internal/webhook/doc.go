// Package webhook tells other systems what happens in an organisation, as Standard Webhooks
// says: signed messages, sent again until they are taken.
//
// In a turn it comes last, and the turn does not know of it. A delivery is a row that the
// store writes with the transition that it is about; the Deliverer of any node finds it
// when it is due, claims it, and sends it.
//
// A message arrives at least once. Order: none is promised. A slow receiver delays its own
// messages only. Lost messages: those of a receiver that was away for as long as messages
// are tried, and those of sessions that are erased before. A process that dies leaves the
// delivery to the next one, when its claim has run out.
package webhook
