package openaichat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// cases lists the field cases of this API; the files hold the bytes as on the wire.
var cases = map[string][]adaptertest.Want{
	"01-retry-text-concat.ndjson": {
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: adaptertest.NoUsage}, // the reset may overtake the text
		{Text: "Rental R-2041 is closed.", Finish: "stop", Usage: adaptertest.NoUsage}},
	"02-phantom-call-after-retry.ndjson": {
		{Calls: []call{{"a1", "refund_rental", `{"rental_id":"R-2`}}, Class: event.ServerError, Retry: true, Usage: adaptertest.NoUsage},
		{Text: "That rental cannot be refunded.", Finish: "stop", Usage: adaptertest.NoUsage}},
	"03-args-spliced-across-attempts.ndjson": {
		{Text: adaptertest.Any, Class: event.Connection, Retry: true, Usage: adaptertest.NoUsage},
		{Calls: []call{{"w9", "write_note", `{"text":"gate code is 4411"}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"05-retry-arm-without-reset.ndjson": {
		{Text: "Open rentals: R-1, R", Class: event.Truncated, Length: true, Usage: adaptertest.NoUsage},
		{Text: "Open rentals: R-1, R-2, R-3.", Finish: "stop", Usage: adaptertest.NoUsage}},
	"07-finish-lies-about-cut-args.sse": {
		{Calls: []call{{"n1", "write_note", `{"text":"The left pedal is`}}, Class: event.MalformedCall, Retry: true, Usage: event.Usage{Input: 30, Output: 16}}},
	"08-length-but-args-parse.sse": {
		{Calls: []call{{"f1", "write_file", `{"path":"report.md"}`}}, Class: event.Truncated, Length: true, Usage: adaptertest.NoUsage}},
	"09-name-only-then-drop.sse": {
		{Text: "Saving it now.", Calls: []call{{"f1", "write_file", ""}}, Class: event.Truncated, Retry: true, Usage: adaptertest.NoUsage}},
	"10-empty-args-finished.sse": {
		{Calls: []call{{"l1", "list_bikes", ""}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"11-stop-with-calls.sse": {
		{Calls: []call{{"s1", "find_rentals", `{"customer":"cu-77"}`}}, Finish: "stop", Usage: adaptertest.NoUsage}},
	"14-index-same-or-missing.sse": {
		{Calls: []call{{"b1", "hold_bike", `{"bike":"B-7"}`}, {"b2", "hold_bike", `{"bike":"B-8"}`}, {"b3", "hold_bike", `{"bike":"B-9"}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"15-duplicate-index-and-interleave.sse": {
		{Calls: []call{{"b1", "hold_bike", `{"bike":"B-7"}`}, {"b2", "hold_bike", `{"bike":"B-9"}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"16-id-and-name-repeated-or-empty.sse": {
		{Calls: []call{{"b1", "hold_bike", `{"bike":"B-7"}`}, {"b2", "send_receipt", `{"to":"desk"}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"18-same-id-different-or-repeated.sse": {
		{Calls: []call{{"x1", "hold_bike", `{"bike":"B-7","hours":2}`}, {"x1", "hold_bike", `{"bike":"B-9","hours":2}`}, {"x1", "hold_bike", `{"hours":2,"bike":"B-7"}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"21-integers-above-2-53.sse": {
		{Calls: []call{{"q1", "find_rental_by_id", `{"id":9007199254740993}`}, {"q2", "find_rental_by_id", `{"id":9007199254740992}`}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"23-sse-grammar.sse": {{Text: "one two three", Finish: "stop", Usage: adaptertest.NoUsage}},
	"24-line-over-64k.sse": {
		{Calls: []call{{adaptertest.Any, "*", strings.Repeat("#", 70000)}}, Finish: "tool_calls", Usage: adaptertest.NoUsage}},
	"25-utf8-split-between-writes.ndjson": {{Text: "naïve café 🚲 東京", Finish: "stop", Usage: adaptertest.NoUsage}},
}

func TestCases(t *testing.T) { adaptertest.Cases(t, API{}, cases) }

// TestArgumentForms uses the variants of the key case: all but the repeated member are
// argument texts that a finished attempt may carry, and each goes through as it is.
func TestArgumentForms(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "cases", "22-canonical-key.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Variants map[string]string }
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	for name, args := range c.Variants {
		quoted, _ := json.Marshal(args)
		r := decode(t, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"hold_bike","arguments":`+string(quoted)+`}}]},"finish_reason":"tool_calls"}]}`)
		if r.Calls[0].Args() != args {
			t.Errorf("%s: arguments %q became %q", name, args, r.Calls[0].Args())
		}
		if name == "dup" {
			if f := r.Failed(t); f.Class != event.MalformedCall || !f.Retryable {
				t.Errorf("%s: %+v", name, f)
			}
			continue
		}
		r.Finished(t)
	}
}

// TestEventLimit: a line over the limit fails the attempt and names the limit.
func TestEventLimit(t *testing.T) { adaptertest.EventLimit(t, API{}, "24-line-over-64k.sse") }
