package render

import (
	"github.com/go-json-experiment/json"
)

// data adds a server-sent event whose data is v. What the encoders send can be encoded,
// so that an error is a bug, which costs the event and is seen in tests.
func data(dst []byte, v any) []byte {
	dst = append(dst, "data: "...)
	dst = appendJSON(dst, v)
	return append(dst, "\n\n"...)
}

func appendJSON(dst []byte, v any) []byte {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		raw = []byte("null")
	}
	return append(dst, raw...)
}
