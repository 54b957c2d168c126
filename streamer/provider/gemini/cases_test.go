package gemini

import (
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// cases lists the field cases of this API, and others' in its form; the files hold the
// bytes as on the wire.
var cases = map[string][]adaptertest.Want{
	"01-retry-text-concat.ndjson": {
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: adaptertest.NoUsage, ID: "g1"}, // the reset may overtake the text
		{Text: "Rental R-2041 is closed.", Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g2"}},
	"02-phantom-call-after-retry.ndjson": {
		{Calls: []call{{"", "refund_rental", `{"rental_id":"R-2041"}`}}, Class: event.ServerError, Retry: true, Usage: adaptertest.NoUsage, ID: "g1"},
		{Text: "That rental cannot be refunded.", Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g2"}},
	"05-retry-arm-without-reset.ndjson": {
		{Text: "Open rentals: R-1, R", Class: event.Truncated, Length: true, Usage: event.Usage{Input: 9, Output: 4}, ID: "g1"},
		{Text: "Open rentals: R-1, R-2, R-3.", Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g2"}},
	"10-empty-args-finished.sse": {
		{Calls: []call{{"", "list_bikes", "{}"}}, Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g1"}},
	"13-malformed-function-call.sse": {
		{Calls: []call{{"", "refund_rental", `{"rental_id":"R-2041"}`}}, Class: event.MalformedCall, Retry: true, Usage: event.Usage{Input: 20, Output: 9}, ID: "g1"}},
	"20-gemini-parallel-same-name.sse": {
		{Calls: []call{{"", "hold_bike", `{"bike":"B-7"}`}, {"", "hold_bike", `{"bike":"B-9"}`}}, Finish: "STOP", Usage: event.Usage{Input: 12, Output: 18}}},
	"21-integers-above-2-53.sse": {
		{Calls: []call{{"", "find_rental_by_id", `{"id":9007199254740993}`}, {"", "find_rental_by_id", `{"id":9007199254740992}`}}, Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g1"}},
	"24-line-over-64k.sse": {
		{Calls: []call{{adaptertest.Any, "*", strings.Repeat("#", 70000)}}, Finish: "STOP", Usage: event.Usage{Input: 10, Output: 5}, ID: "g1"}},
	"two-calls.sse": {
		{Text: "Holding both 🚲.", Calls: []call{{"", "hold_bike", `{"bike":"B-7","note":"é\n"}`}, {"", "hold_bike", `{"bike":"B-9","n":9007199254740993}`}}, Finish: "STOP", Usage: event.Usage{Input: 30, Output: 16}, ID: "g1"}},
}

func TestCases(t *testing.T) { adaptertest.Cases(t, API{}, cases) }

// TestEventLimit: a line over the limit fails the attempt and names the limit.
func TestEventLimit(t *testing.T) { adaptertest.EventLimit(t, API{}, "24-line-over-64k.sse") }
