package openairesponses

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
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: adaptertest.NoUsage, ID: "resp_1"}, // the reset may overtake the text
		{Text: "Rental R-2041 is closed.", Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_2"}},
	"02-phantom-call-after-retry.ndjson": {
		{Calls: []call{{"a1", "refund_rental", `{"rental_id":"R-2041"}`}}, Class: event.ServerError, Retry: true, Usage: adaptertest.NoUsage, ID: "resp_1"},
		{Text: "That rental cannot be refunded.", Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_2"}},
	"05-retry-arm-without-reset.ndjson": {
		{Text: "Open rentals: R-1, R", Class: event.Truncated, Length: true, Usage: event.Usage{Input: 9, Output: 4}, ID: "resp_1"},
		{Text: "Open rentals: R-1, R-2, R-3.", Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_2"}},
	"10-empty-args-finished.sse": {
		{Calls: []call{{"l1", "list_bikes", "{}"}}, Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_1"}},
	"12-responses-failed-then-incomplete.ndjson": {
		{Text: "Checking", Class: event.ServerError, Retry: true, Usage: adaptertest.NoUsage, ID: "resp_1"},
		{Calls: []call{{"call_1", "refund_rental", ""}}, Class: event.Truncated, Length: true, Usage: event.Usage{Input: 50, Output: 16}, ID: "resp_2"}},
	"21-integers-above-2-53.sse": {
		{Calls: []call{{"q1", "find_rental_by_id", `{"id":9007199254740993}`}, {"q2", "find_rental_by_id", `{"id":9007199254740992}`}}, Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_1"}},
	"24-line-over-64k.sse": {
		{Calls: []call{{adaptertest.Any, "*", strings.Repeat("#", 70000)}}, Finish: "completed", Usage: event.Usage{Input: 10, Output: 5}, ID: "resp_1"}},
	"two-calls.sse": {
		{Text: "Holding both 🚲.", Calls: []call{{"b1", "hold_bike", `{"bike":"B-7","note":"é\n"}`}, {"b2", "hold_bike", `{"bike":"B-9","n":9007199254740993}`}}, Finish: "completed", Usage: event.Usage{Input: 30, Output: 16}, ID: "resp_1"}},
}

func TestCases(t *testing.T) { adaptertest.Cases(t, API{}, cases) }

// TestEventLimit: a line over the limit fails the attempt and names the limit.
func TestEventLimit(t *testing.T) { adaptertest.EventLimit(t, API{}, "24-line-over-64k.sse") }
