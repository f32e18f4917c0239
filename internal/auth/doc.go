// Package auth says who makes a request, by its credential and nothing else: an API key,
// of which the store keeps a hash, or a token that an OpenID issuer has signed.
//
// It comes first in a turn, on the way of every request, so it is cheap there: a key that
// was looked up less than half a second ago is not looked up again, and that is how long a
// key that was revoked on another node may still be good. Long answers ask again while
// they run.
//
// Without an issuer authentication is off until somebody makes the first key. From then on
// it stays on: a key that is revoked stays in the store, and a server whose keys are all
// revoked lets nobody in.
package auth
