package cases

// row is a case and what it must come to, the same in every dialect.
type row struct {
	n        string
	text     string // that the reader is left with
	failed   bool   // the turn ends without an answer
	salvaged bool   // it ends with what was shown of a reply that is not whole
	requests int
	resets   int
	classes  []string // how the failed attempts of the first step ended
	runs     []string // "tool arguments" that reached the tools, in any order
	outcomes []string // of the calls, in their order
	keys     int      // different idempotency keys of the runs
	offered  string   // for each request, t if it offers tools; empty is not checked
	usage    [2]int   // input and output of an attempt of the first step, if any is not 0
	usageAt  int      // which attempt's that is, from 0
	finish   string   // of the turn, if not empty
}

// letters stands for arguments that hold the 70,000 letters of case 24.
const letters = "(letters)"

var rows = []row{
	{n: "01", text: "Rental R-2041 is closed.", requests: 2, resets: 1, classes: []string{"connection"}},
	{n: "02", text: "That rental cannot be refunded.", requests: 2, resets: 1, classes: []string{"server_error"}},
	{n: "03", text: "Done.", requests: 3, resets: 1, classes: []string{"connection"}, runs: []string{`write_note {"text":"gate code is 4411"}`}, outcomes: ok(1), keys: 1},
	{n: "04", text: "R-2041: brake fault, full refund.Done.", requests: 3, resets: 1, classes: []string{"connection"},
		runs: []string{`refund_rental {"amount_minor": 1250, "rental_id": "R-2041"}`}, outcomes: ok(1), keys: 1},
	{n: "05", text: "Open rentals: R-1, R-2, R-3.", requests: 2, resets: 1, classes: []string{"truncated"}},
	{n: "06", text: "Done.", requests: 2, resets: 1, classes: []string{"truncated"}, usage: [2]int{41, 1}},
	{n: "07", text: "Done.", requests: 2, resets: 1, classes: []string{"malformed_call"}, usage: [2]int{30, 16}},
	{n: "08", failed: true, requests: 1, classes: []string{"truncated"}},
	{n: "09", text: "Done.", requests: 2, resets: 1, classes: []string{"truncated"}},
	{n: "10", text: "Done.", requests: 2, runs: []string{"list_bikes {}"}, outcomes: ok(1), keys: 1},
	{n: "11", text: "Done.", requests: 2, runs: []string{`find_rentals {"customer":"cu-77"}`}, outcomes: ok(1), keys: 1},
	{n: "12", text: "Checking", salvaged: true, requests: 2, resets: 1, classes: []string{"server_error", "truncated"}, usage: [2]int{50, 16}, usageAt: 1},
	{n: "13", text: "Done.", requests: 2, resets: 1, classes: []string{"malformed_call"}, usage: [2]int{20, 9}},
	{n: "14", text: "Done.", requests: 2, runs: []string{`hold_bike {"bike":"B-7"}`, `hold_bike {"bike":"B-8"}`, `hold_bike {"bike":"B-9"}`}, outcomes: ok(3), keys: 3},
	{n: "15", text: "Done.", requests: 2, runs: []string{`hold_bike {"bike":"B-7"}`, `hold_bike {"bike":"B-9"}`}, outcomes: ok(2), keys: 2},
	{n: "16", text: "Done.", requests: 2, runs: []string{`hold_bike {"bike":"B-7"}`, `send_receipt {"to":"desk"}`}, outcomes: ok(2), keys: 2},
	{n: "18", text: "Done.", requests: 2, runs: []string{`hold_bike {"bike":"B-7","hours":2}`, `hold_bike {"bike":"B-9","hours":2}`}, outcomes: ok(3), keys: 2},
	{n: "20", text: "Done.", requests: 2, runs: []string{`hold_bike {"bike":"B-7"}`, `hold_bike {"bike":"B-9"}`}, outcomes: ok(2), keys: 2, usage: [2]int{12, 18}},
	{n: "21", text: "Done.", requests: 2, runs: []string{`find_rental_by_id {"id":9007199254740992}`, `find_rental_by_id {"id":9007199254740993}`}, outcomes: ok(2), keys: 2},
	{n: "23", text: "one two three", requests: 1},
	{n: "24", text: "Done.", requests: 2, runs: []string{"write_note " + letters}, outcomes: ok(1), keys: 1},
	{n: "25", text: "naïve café 🚲 東京", requests: 1},
	{n: "26", text: "No helmet refund is on record.", requests: 4, offered: "tttf", outcomes: ok(3), keys: 3,
		runs: []string{`find_rentals {"q":"helmet money back"}`, `find_rentals {"q":"helmet refund"}`, `find_rentals {"q":"refund of helmet"}`}},
	{n: "27", text: "Done.", requests: 1, usage: [2]int{25, 18}},
	{n: "28", text: "All bikes are back.", requests: 2, resets: 1, classes: []string{"overloaded"}},
	{n: "29", text: "Your request is on its way; staff will confirm it.", requests: 4, offered: "tttf", outcomes: []string{"unknown", "unknown", "unknown"}, keys: 1},
	{n: "31", requests: 5, offered: "ttttf", keys: 1, finish: "loop"},
}

func ok(n int) (out []string) {
	for range n {
		out = append(out, "succeeded")
	}
	return out
}
