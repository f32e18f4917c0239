package interchange

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decode returns the text of a file: without a byte order mark, its lines ended by \n.
func decode(data []byte) (text string, err error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return "", errors.New("the file is in UTF-16; save it as UTF-8")
	}
	if !utf8.Valid(data) {
		return "", errors.New("the file is not valid UTF-8; save it as UTF-8")
	}
	text = strings.TrimPrefix(string(data), "\uFEFF")
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// straight makes typographic quotes and spaces plain. Word processors put them where a
// program needs the plain ones.
func straight(s string) string { return straightener.Replace(s) }

var straightener = strings.NewReplacer(
	"\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u201f", `"`,
	"\u2018", "'", "\u2019", "'", "\u201a", "'", "\u201b", "'",
	"\u00a0", " ", "\u202f", " ",
)

// visible leaves out what nobody sees but a model reads: control characters, marks
// without width, turns of the writing direction, and the letters of the tag block, which
// can spell a hidden sentence. The joiner within an emoji stays.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == '\u200b', r == '\u2060', r == '\ufeff', r == '\u00ad',
			r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r >= 0xe0000 && r <= 0xe007f:
			return -1
		}
		return r
	}, s)
}

// clean makes a text plain, and says in the notes what that changed in the member.
func (n *notes) clean(member, s string) string {
	plain := straight(s)
	if plain != s {
		n.add(Changed, "%s: typographic quotes and spaces were made plain", member)
	}
	seen := visible(plain)
	if seen != plain {
		n.add(Changed, "%s: invisible characters were left out", member)
	}
	return strings.TrimSpace(seen)
}

// flat puts a text on one line.
func flat(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' }), " ")
}

// firstSentence returns how a text begins, at most so many bytes of it.
func firstSentence(s string, most int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n\n")
	s = flat(strings.TrimLeft(s, "# "))
	for i, r := range s {
		if strings.ContainsRune(".!?。！？", r) {
			end := i + utf8.RuneLen(r)
			if end == len(s) || s[end] == ' ' || r > unicode.MaxLatin1 {
				s = s[:end]
				break
			}
		}
	}
	if len(s) <= most {
		return s
	}
	cut := strings.ToValidUTF8(s[:most], "")
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return cut + " …"
}
