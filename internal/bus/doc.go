// Package bus carries hints and live text from node to node, over core NATS. In a turn
// it stands beside the journal, as package events does: the node that runs a turn has
// its events.Log, and any other node that has readers of the turn keeps a copy of that
// Log here (Bus.Follow). Nodes also tell each other that the row of a turn has moved
// (Bus.Moved), so that whoever waits for it looks sooner than it would have.
//
// Nothing that counts depends on a message. A lost, doubled or reordered one makes
// things later, never wrong: the journal decides, and those who wait look there from
// time to time.
//
// Order: a copy has its owner's events in their order, each once. Every message says
// where its events begin, so that a gap is noticed and the owner is asked again.
//
// Slow readers: a copy is an events.Log, which no reader holds up. A node that takes its
// messages too slowly loses some, and asks again.
//
// Lost events: a copy is closed when its owner closes the Log, and also when it is lost:
// nothing was heard of the owner for Config.Silence, another node runs the turn now, or an
// event does not fit into a message. Its readers then go to the journal, which is always
// right, and may find a copy again.
//
// Restart: nothing is kept. A node that starts without NATS goes on without, and
// connects when it can.
//
// What goes over the wire: a node that wants a turn asks all others, in one message; the
// one that has it sends what there is and, for as long as it is asked again, whatever is
// appended. A turn that nobody follows from elsewhere is not sent anywhere. No key is
// part of a subject, and each message carries the whole key of its turn (see message.go).
package bus
