package llm

// readFlat reads an object as most events are: without spaces, with names and strings
// that have no escapes, with values that are strings, whole numbers, literals and empty
// arrays. It reports whether data is such an object. If not, members may have been handed
// out already, and an objectReader says what data is. That takes all of JSON, and twice the
// time of a whole stream (decision D159).
func readFlat(data []byte, into members) bool {
	if len(data) < 2 || data[0] != '{' {
		return false
	}
	if data[1] == '}' {
		return len(data) == 2
	}
	for at := 1; ; at++ {
		end := stringEnd(data, at)
		if end < 0 || end == len(data) || data[end] != ':' {
			return false
		}
		m := into.member(data[at:end])
		at = end + 1
		if end = flatEnd(data, at); end < 0 || end == len(data) {
			return false
		}
		if m != 0 && into.set(m, data[at:end]) != nil {
			return false
		}
		switch at = end; data[at] {
		case ',':
		case '}':
			return at == len(data)-1
		default:
			return false
		}
	}
}

// flatEnd returns where the value ends that begins at a place, -1 when it is not flat.
func flatEnd(data []byte, at int) int {
	if at == len(data) {
		return -1
	}
	switch c := data[at]; {
	case c == '"':
		return stringEnd(data, at)
	case c == '0':
		return at + 1
	case '1' <= c && c <= '9':
		for at++; at < len(data) && '0' <= data[at] && data[at] <= '9'; at++ {
		}
		return at
	}
	for _, literal := range [...]string{"[]", "null", "true", "false"} {
		if end := at + len(literal); end <= len(data) && string(data[at:end]) == literal {
			return end
		}
	}
	return -1
}

// stringEnd returns where the string ends that begins at a place, -1 when there is none,
// or one with escapes.
func stringEnd(data []byte, at int) int {
	if at == len(data) || data[at] != '"' {
		return -1
	}
	for at++; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			return at + 1
		case c == '\\' || c < ' ':
			return -1
		}
	}
	return -1
}
