package contract

import (
	"encoding/hex"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxPath is the length of the longest path, in bytes.
const maxPath = 4096

var (
	// A drive letter, or a URI with its scheme: file:/etc, vscode-remote://host.
	anchored = regexp.MustCompile(`^(?:[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*:/)`)
	// Windows opens a device under these names in every folder, with any extension.
	device  = regexp.MustCompile(`(?i)^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])$`)
	percent = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

// readPath reads the path of an artifact, which lies below the opened root folder
// (AGN-034 §4.2). The server never opens it, but models, tools and clients do, on
// systems whose rules differ; so it must be harmless under all of them. The path is
// carried as it was written.
func readPath(v value, placed map[string]string) string {
	const rule = "AGN034-4.2-a"
	written, ok := v.text(rule)
	switch {
	case !ok:
		return ""
	case written == "":
		v.fault(rule, "must not be empty; it is the path below the opened root folder.")
		return ""
	case len(written) > maxPath:
		v.fault(ruleLimits, "is %d bytes long; a path has at most %d.", len(written), maxPath)
		return written
	}
	plain := plainPath(written)
	if strings.HasPrefix(plain, "/") || anchored.MatchString(plain) {
		v.fault("AGN034-4.2-i", "is absolute: %s. Send it relative to the opened root folder.", quote(written))
	}
	for segment := range strings.SplitSeq(plain, "/") {
		if climbs(segment) {
			v.fault(rule, "leaves the opened root folder: %s. Send it without \"..\".", quote(written))
			break
		}
	}
	checkCharacters(v, rule, plain)

	// Two spellings of one place are one file; some systems compose what a name holds,
	// others take it apart.
	place := path.Clean(norm.NFC.String(plain))
	if twin, ok := placed[place]; ok {
		v.fault(rule, "is the path of %s too; send each file once.", twin)
	} else {
		placed[place] = v.at[:strings.LastIndexByte(v.at, '/')]
	}
	return written
}

// readFileName reads the name of an artifact, which has no folders in it
// (AGN-034 §4.2).
func readFileName(v value) string {
	const rule = "AGN034-4.2-b"
	written, ok := v.text(rule)
	switch {
	case !ok:
		return ""
	case written == "":
		v.fault(rule, "must not be empty.")
		return ""
	case len(written) > maxPath:
		v.fault(ruleLimits, "is %d bytes long; a name has at most %d.", len(written), maxPath)
		return written
	}
	plain := plainPath(written)
	if strings.Contains(plain, "/") || anchored.MatchString(plain) || plain == "." || climbs(plain) {
		v.fault(rule, "is %s; it must be a name without folders.", quote(written))
	}
	checkCharacters(v, rule, plain)
	return written
}

// checkCharacters refuses what no tool shows as it is, and the names of devices.
func checkCharacters(v value, rule, plain string) {
	if !utf8.ValidString(plain) {
		// An overlong "%c0%ae" is a dot to a careless reader.
		v.fault(rule, "holds percent-encoded bytes that are no text; send the path as it is, unencoded.")
		return
	}
	if i := strings.IndexFunc(plain, invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(plain[i:])
		v.fault(rule, "holds the invisible character %U; leave it out.", r)
	}
	for segment := range strings.SplitSeq(plain, "/") {
		stem, _, _ := strings.Cut(segment, ".")
		stem, _, _ = strings.Cut(stem, ":")
		if device.MatchString(strings.TrimRight(stem, " ")) {
			v.fault(rule, "holds %s, which Windows takes for a device; send the file under another name.", quote(segment))
			return
		}
	}
}

// invisible reports characters that change or hide what a path looks like: controls,
// zero-width characters, direction overrides, fillers, line and paragraph separators.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// climbs reports whether a segment leads to the parent folder. Windows drops dots and
// blanks at the end, so ".. " does too.
func climbs(segment string) bool {
	return strings.Contains(segment, "..") && strings.Trim(segment, ". ") == ""
}

// plainPath is the path as the most obliging reader would take it: separators are
// slashes, and percent-encoding is undone. Some readers undo it twice; more than a few
// times nobody does, and each round costs time.
func plainPath(written string) string {
	const rounds = 4
	for range rounds {
		written = percent.ReplaceAllStringFunc(written, func(code string) string {
			b, err := hex.DecodeString(code[1:])
			if err != nil {
				return code
			}
			return string(b)
		})
	}
	return strings.ReplaceAll(written, `\`, "/")
}
