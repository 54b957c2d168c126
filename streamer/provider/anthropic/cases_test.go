package anthropic

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
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: event.Usage{Input: 10, Output: 1, Partial: true}, ID: "msg_1"}, // the reset may overtake anything
		{Text: "Rental R-2041 is closed.", Finish: "end_turn", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_2"}},
	"02-phantom-call-after-retry.ndjson": {
		{Calls: []call{{"a1", "refund_rental", `{"rental_id":"R-2041"}`}}, Class: event.ServerError, Retry: true, Usage: event.Usage{Input: 10, Output: 1, Partial: true}, ID: "msg_1"},
		{Text: "That rental cannot be refunded.", Finish: "end_turn", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_2"}},
	"04-complete-call-in-abandoned-attempt.ndjson": {
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: event.Usage{Input: 41, Output: 1, Partial: true}, ID: "msg_1"},
		{Text: "R-2041: brake fault, full refund.", Calls: []call{{"c7", "refund_rental", `{"amount_minor": 1250, "rental_id": "R-2041"}`}},
			Finish: "tool_use", Usage: event.Usage{Input: 41, Output: 38}, ID: "msg_1"}},
	"05-retry-arm-without-reset.ndjson": {
		{Text: "Open rentals: R-1, R", Class: event.Truncated, Length: true, Usage: event.Usage{Input: 9, Output: 4}, ID: "msg_1"},
		{Text: "Open rentals: R-1, R-2, R-3.", Finish: "end_turn", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_2"}},
	"06-eof-mid-call.sse": {
		{Calls: []call{{"u1", "refund_rental", `{"rental_id":"R-3`}}, Class: event.Truncated, Retry: true, Usage: event.Usage{Input: 41, Output: 1, Partial: true}, ID: "msg_1"}},
	"10-empty-args-finished.sse": {
		{Calls: []call{{"l1", "list_bikes", "{}"}}, Finish: "tool_use", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_1"}},
	"21-integers-above-2-53.sse": {
		{Calls: []call{{"q1", "find_rental_by_id", `{"id":9007199254740993}`}, {"q2", "find_rental_by_id", `{"id":9007199254740992}`}}, Finish: "tool_use", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_1"}},
	"24-line-over-64k.sse": {
		{Calls: []call{{adaptertest.Any, "*", strings.Repeat("#", 70000)}}, Finish: "tool_use", Usage: event.Usage{Input: 10, Output: 5}, ID: "msg_1"}},
	"27-usage-snapshots-anthropic.sse": {
		{Text: "Done.", Finish: "end_turn", Usage: event.Usage{Input: 25, CacheRead: 7, Output: 18}, ID: "msg_1"}},
	"28-overloaded-mid-stream.ndjson": {
		{Text: "Let me", Class: event.Overloaded, Retry: true, Usage: event.Usage{Input: 31, Output: 1, Partial: true}, ID: "req_a"},
		{Text: "All bikes are back.", Finish: "end_turn", Usage: event.Usage{Input: 31, Output: 12}, ID: "req_b"}},
	"two-calls.sse": {
		{Text: "Holding both 🚲.", Calls: []call{{"b1", "hold_bike", `{"bike":"B-7","note":"é\n"}`}, {"b2", "hold_bike", `{"bike":"B-9","n":9007199254740993}`}}, Finish: "tool_use", Usage: event.Usage{Input: 30, Output: 16}, ID: "msg_1"}},
}

func TestCases(t *testing.T) { adaptertest.Cases(t, API{}, cases) }

// TestEventLimit: a line over the limit fails the attempt and names the limit.
func TestEventLimit(t *testing.T) { adaptertest.EventLimit(t, API{}, "24-line-over-64k.sse") }
