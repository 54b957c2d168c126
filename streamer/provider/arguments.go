package provider

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrArguments: argument text that is not exactly one JSON object. No call of its
// attempt runs.
var ErrArguments = errors.New("provider: arguments are not exactly one JSON object")

// CheckArguments reports whether argument text means one thing only: nothing at all,
// which is {}, or exactly one JSON object in valid UTF-8 without a repeated member at
// any depth and without a lone surrogate. Where readers may differ about a text, the
// effect that was meant is unknown (I6), so it is refused and never repaired (I4).
func CheckArguments(text string) error {
	text = strings.Trim(text, " \t\r\n") // JSON's white space, no more
	if text == "" {
		return nil
	}
	// IsValid without options is strict: RFC 7493 for names and UTF-8.
	if text[0] != '{' || !jsontext.Value(text).IsValid() {
		return ErrArguments
	}
	return nil
}
