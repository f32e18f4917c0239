// Package agent is the vocabulary of Aptix: the nouns that every other package
// speaks. A Caller opens a Session and sends Turns; a Turn runs in a Mode with a
// frozen set of tools, leaves Steps in its journal and shows Events to whoever
// follows it. The package imports only the standard library, so nothing can pull
// it sideways, and a type lives here only when two folders speak it.
package agent
