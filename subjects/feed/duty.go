package feed

// Duty says what a client does with an item of a type. Required: a client that skips the
// type shows something wrong; every other type may be skipped.
type Duty struct {
	Required bool
	Does     string
}

// duties has a row for every type of the feed lane (docs/feed.md is made of it).
var duties = map[string]Duty{
	"turn_accepted":    {false, "may show that the turn is stored"},
	"text_delta":       {true, "append the text to that of its step"},
	"reasoning_delta":  {false, "may show the reasoning of the step, apart from its text"},
	"reset":            {true, "drop everything shown of the step; of the whole turn if the step is 0"},
	"tool_start":       {false, "may show that the tool runs"},
	"client_call":      {false, "run the call, if the turn was opened with tools of the client's own"},
	"tool_progress":    {false, "may show how far the tool is"},
	"tool_result":      {false, "may show how the call ended"},
	"image":            {false, "may show the picture with its call"},
	"card":             {false, "may show the result as a card of that kind instead of as text"},
	"approval_request": {false, "may ask a person, and approve or deny the call"},
	"usage":            {false, "may show what the attempt used; it ends the attempt"},
	"completion":       {true, "the turn is over; what is shown is its text"},
	"error":            {true, "the turn is over and has nothing to show; show the message"},
	"message_saved":    {false, "may show that the message is stored; nothing follows"},
	"ping":             {false, "nothing: the connection lives"},
}

// DutyOf gives a client's duty by type, or false for a type that is not on the feed.
func DutyOf(typ string) (Duty, bool) {
	d, ok := duties[typ]
	return d, ok
}
