package stage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Follower is a renderer that knows nothing but the feed of one turn, and goes on
// strictly after the last item that it saw when its connection breaks.
type Follower struct {
	Items []Item     // all but pings, as they came over all connections
	Over  bool       // the feed has come to its end
	Seen  func(Item) // called with each item as it comes; may be nil
	Route string     // of a turn that is posted; empty takes the default one

	product *Product
	turn    string
	shown   map[int]string
}

// Item is what a follower reads of a feed item.
type Item struct {
	Type, ID, Text, Call, Outcome, Finish, Class, Message string
	Step, Attempt, Abandoned, Attempts                    int
}

// NewFollower follows a turn of p, wherever p listens at the time.
func NewFollower(p *Product, turn string) *Follower {
	return &Follower{product: p, turn: turn, shown: map[int]string{}}
}

// Move has the follower go on at another product of the same deployment.
func (f *Follower) Move(p *Product) { f.product = p }

// Post posts the turn and reads its feed until the connection ends.
func (f *Follower) Post(ctx context.Context, input string) error {
	turn := map[string]string{"turn": f.turn, "input": input}
	if f.Route != "" {
		turn["route"] = f.Route
	}
	body, err := json.Marshal(turn)
	if err != nil {
		return err
	}
	return f.read(ctx, http.MethodPost, "/v1/turns", bytes.NewReader(body))
}

// Resume reads the feed after the last item until the connection ends.
func (f *Follower) Resume(ctx context.Context) error {
	path := "/v1/turns/" + f.turn + "/feed"
	if n := len(f.Items); n > 0 {
		path += "?after=" + f.Items[n-1].ID
	}
	return f.read(ctx, http.MethodGet, path, nil)
}

func (f *Follower) read(ctx context.Context, method, path string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, f.product.Base+path, body)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		what, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return fmt.Errorf("%s %s: %s %s", method, path, res.Status, what)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var i Item
		if err := json.Unmarshal(lines.Bytes(), &i); err != nil {
			return fmt.Errorf("feed line %.80q: %w", lines.Bytes(), err)
		}
		f.see(i)
	}
	return lines.Err()
}

func (f *Follower) see(i Item) {
	if i.Type == "ping" {
		return
	}
	f.Items = append(f.Items, i)
	if f.Seen != nil {
		f.Seen(i)
	}
	switch i.Type {
	case "text_delta":
		f.shown[i.Step] += i.Text
	case "reset":
		delete(f.shown, i.Step)
		if i.Step == 0 {
			clear(f.shown)
			f.Over = false
		}
	case "message_saved", "error":
		f.Over = true
	}
}

// Text is what the reader looks at.
func (f *Follower) Text() string {
	var out strings.Builder
	for step, seen := 1, 0; seen < len(f.shown); step++ {
		if s, ok := f.shown[step]; ok {
			out.WriteString(s)
			seen++
		}
	}
	return out.String()
}

// Faults lists what breaks the feed's contract, as its reader saw it.
func (f *Follower) Faults() []string {
	var out []string
	ids, results, resets := map[string]bool{}, map[string]int{}, map[int]int{}
	for n, i := range f.Items {
		if ids[i.ID] {
			out = append(out, fmt.Sprintf("item %d repeats id %s", n, i.ID))
		}
		ids[i.ID] = true
		switch i.Type {
		case "reset":
			resets[i.Step]++
			if i.Step == 0 {
				clear(resets)
				clear(results)
			}
		case "text_delta", "tool_start":
			if resets[i.Step] != i.Attempt-1 {
				out = append(out, fmt.Sprintf("item %d: %s of attempt %d.%d after %d resets", n, i.Type, i.Step, i.Attempt, resets[i.Step]))
			}
		case "tool_result":
			if results[i.Call]++; results[i.Call] > 1 {
				out = append(out, fmt.Sprintf("item %d: call %s has a second result", n, i.Call))
			}
		}
	}
	return out
}
