package rag

import (
	"slices"
	"strings"
	"unicode"
)

// maxWord bounds a word in bytes; what is longer is data, such as a key or a hash.
const maxWord = 64

// Words returns the words of a text in lower case, as they are searched for. An
// identifier stands there whole and in its parts, however it is written: maxBytes,
// MaxBytes and max_bytes are all maxbytes, max and bytes.
func Words(text string) []string {
	var out []string
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return !inIdentifier(r) }) {
		out = appendIdentifier(out, field)
	}
	return out
}

func inIdentifier(r rune) bool { return r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.Nd) }

// appendIdentifier appends the words of an identifier: the whole, then its parts if
// there is more than one.
func appendIdentifier(out []string, identifier string) []string {
	var parts []string
	for piece := range strings.SplitSeq(identifier, "_") {
		parts = appendParts(parts, piece)
	}
	if len(parts) > 1 {
		parts = append([]string{strings.Join(parts, "")}, parts...)
	}
	for _, p := range parts {
		if len(p) <= maxWord {
			out = append(out, p)
		}
	}
	return out
}

// appendParts splits a piece where a capital begins a word: readFile, HTTPServer.
func appendParts(parts []string, piece string) []string {
	runes := []rune(piece)
	begin := 0
	for i := 1; i < len(runes); i++ {
		rises := unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1])
		falls := unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i]) && i-1 > begin
		switch {
		case rises:
			parts = append(parts, strings.ToLower(string(runes[begin:i])))
			begin = i
		case falls:
			parts = append(parts, strings.ToLower(string(runes[begin:i-1])))
			begin = i - 1
		}
	}
	if begin < len(runes) {
		parts = append(parts, strings.ToLower(string(runes[begin:])))
	}
	return parts
}

// ContentWords returns the words of a text that tell something of it: no single
// letters, and none that are in every English text.
func ContentWords(text string) []string {
	return slices.DeleteFunc(Words(text), func(w string) bool { return len(w) < 2 || stopWords[w] })
}

// maxTerms bounds what is looked for at once; a question is short, and a pasted file
// says nothing more in its thousandth word.
const maxTerms = 64

// Terms returns the different content words of a question, in their order.
func Terms(question string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range ContentWords(question) {
		if len(out) == maxTerms {
			break
		}
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// stopWords are in every English text and so tell nothing about any.
var stopWords = setOf(`a about after all also an and any are as at be because been before being but by can could
	did do does doing don for from had has have he her here his how i if in into is it its just may me more
	most must my no nor not now of on one only or other our out over own please s same she should so some such
	t than that the their them then there these they this those through to too under until up us use used
	very was we were what when where which while who whom whose why will with would you your`)

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
