package provider

import "io"

// space gives the first place from i on that is no white space.
func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// valueEnd gives the end of the JSON value that begins at i, inside so many levels.
func valueEnd(data []byte, i, depth int) (int, error) {
	switch c := data[i]; {
	case c == '"':
		return stringEnd(data, i)
	case c == '{':
		return listEnd(data, i, depth, '}')
	case c == '[':
		return listEnd(data, i, depth, ']')
	case c == 't':
		return literalEnd(data, i, "true")
	case c == 'f':
		return literalEnd(data, i, "false")
	case c == 'n':
		return literalEnd(data, i, "null")
	case c == '-', '0' <= c && c <= '9':
		return numberEnd(data, i)
	}
	return 0, errJSON
}

// listEnd is valueEnd of an object or array.
func listEnd(data []byte, i, depth int, closing byte) (int, error) {
	if depth >= depthMax {
		return 0, errDepth
	}
	if i = space(data, i+1); i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for i < len(data) {
		var err error
		if closing == '}' {
			if i, err = nameEnd(data, i); err != nil {
				return 0, err
			}
		}
		if i == len(data) {
			break
		}
		if i, err = valueEnd(data, i, depth+1); err != nil {
			return 0, err
		}
		if i = space(data, i); i == len(data) {
			break
		}
		switch data[i] {
		case closing:
			return i + 1, nil
		case ',':
			i = space(data, i+1)
		default:
			return 0, errJSON
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// nameEnd gives the beginning of the value whose name begins at i.
func nameEnd(data []byte, i int) (int, error) {
	if data[i] != '"' {
		return 0, errJSON
	}
	i, err := stringEnd(data, i)
	if err != nil {
		return 0, err
	}
	if i = space(data, i); i == len(data) {
		return 0, io.ErrUnexpectedEOF
	}
	if data[i] != ':' {
		return 0, errJSON
	}
	return space(data, i+1), nil
}

// stringEnd is valueEnd of a string. Escapes are checked here, so that Unquote need not.
func stringEnd(data []byte, i int) (int, error) {
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return 0, errJSON
		case c == '\\':
			if i++; i == len(data) {
				return 0, io.ErrUnexpectedEOF
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(data) {
					return 0, io.ErrUnexpectedEOF
				}
				for range 4 {
					if i++; !isHex(data[i]) {
						return 0, errJSON
					}
				}
			default:
				return 0, errJSON
			}
		}
	}
	return 0, io.ErrUnexpectedEOF
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func literalEnd(data []byte, i int, word string) (int, error) {
	if end := i + len(word); end <= len(data) && string(data[i:end]) == word {
		return end, nil
	}
	return 0, errJSON
}

// numberEnd is valueEnd of a number.
func numberEnd(data []byte, i int) (int, error) {
	if data[i] == '-' {
		i++
	}
	var ok bool
	switch {
	case i < len(data) && data[i] == '0':
		i++
	default:
		if i, ok = digits(data, i); !ok {
			return 0, errJSON
		}
	}
	if i < len(data) && data[i] == '.' {
		if i, ok = digits(data, i+1); !ok {
			return 0, errJSON
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if i, ok = digits(data, i); !ok {
			return 0, errJSON
		}
	}
	return i, nil
}

// digits skips digits, of which there must be one.
func digits(data []byte, i int) (int, bool) {
	from := i
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i, i > from
}
