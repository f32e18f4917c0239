// Package budget bounds what model calls take: tokens, money, tool calls and time, per turn,
// per session, and per organisation and day or month.
//
// In a turn it stands around each model call. The call is reserved before it is sent and
// charged when it is over, both in the ledger that all nodes share. How much a call takes is
// known only afterwards; so it runs beside others of its organisation only as long as all
// those could take what they may take at most and something were still left, and else when
// they are over. Whatever order they end in, no more than one call goes over a budget (D106).
// Tool calls are known before they run and never go over.
//
// Where nothing is configured there is no Keeper, and every method of a nil *Keeper and of a
// nil *Account does nothing.
package budget
