package provider

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/event"
)

// Malformed is the failure of a reply whose calls cannot be taken as they came.
func Malformed(format string, args ...any) *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.MalformedCall, Retryable: true, Detail: OneLine(fmt.Sprintf(format, args...), detailBytesMax)}
}

// Broken is the failure of a stream that breaks its own rules, so that a piece of the
// reply may be lost.
func Broken(format string, args ...any) *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: OneLine(fmt.Sprintf(format, args...), detailBytesMax)}
}

// Empty is the failure of a reply that says nothing and calls nothing.
func Empty() *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.Truncated, Retryable: true, Detail: "the reply is empty"}
}

// UnknownFinish is the failure of a reply that ended with a word nobody knows. It proves
// neither a whole reply nor a useless request, so another attempt, which the turn's
// budget bounds, may end otherwise.
func UnknownFinish(word string) *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.UnknownFinish, Retryable: true, Detail: "unknown finish reason " + OneLine(word, 80)}
}

// CutByLength is the failure of a reply that the output limit ended. It is not retryable
// as it is; Length tells that a larger budget may do.
func CutByLength() *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.Truncated, Length: true, Detail: "cut by the output limit"}
}

// CheckCall finds what keeps a call of a whole reply from running; nil if nothing does.
// Damaged tells that its argument text could not be read as it was meant.
func CheckCall(place int, name string, args []byte, damaged bool) *event.AttemptFailed {
	if name == "" {
		return Malformed("call %d has no name", place)
	}
	if damaged || CheckArguments(string(args)) != nil {
		return Malformed("the arguments of call %d (%s) are not exactly one JSON object", place, OneLine(name, 80))
	}
	return nil
}

// SameJSON reports whether two texts are one JSON value but for the space between its
// tokens.
func SameJSON(a, b []byte) bool {
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Compact() == nil && y.Compact() == nil && bytes.Equal(x, y)
}
