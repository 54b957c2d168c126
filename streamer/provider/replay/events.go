package replay

// EventEnds gives the length of each prefix of an event stream that ends with a whole
// event: behind the line end of its blank line. Blocks without data are no events. Lines
// end with CR LF, LF or CR, as the grammar of server-sent events has it, so that a CR
// already ends an event whose LF is cut off; the end given is behind the LF if there is
// one.
func EventEnds(body []byte) []int {
	var ends []int
	hasData := false
	for at := 0; at < len(body); {
		line, next := lineEnd(body, at)
		if next < 0 {
			break // the line has no end
		}
		switch text := body[at:line]; {
		case len(text) > 0:
			hasData = hasData || isData(text)
		case hasData:
			ends, hasData = append(ends, next), false
		}
		at = next
	}
	return ends
}

func isData(line []byte) bool {
	const field = "data"
	return len(line) >= len(field) && string(line[:len(field)]) == field && (len(line) == len(field) || line[len(field)] == ':')
}

// lineEnd finds where the line's text ends and where the next one begins; -1 if the
// line has no end.
func lineEnd(body []byte, at int) (end, next int) {
	for i := at; i < len(body); i++ {
		switch body[i] {
		case '\n':
			return i, i + 1
		case '\r':
			if i+1 < len(body) && body[i+1] == '\n' {
				return i, i + 2
			}
			return i, i + 1
		}
	}
	return len(body), -1
}
