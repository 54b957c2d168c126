package cut

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// state is what GET /v1/turns/{turn} says, as far as the tests look at it.
type state struct {
	Status, Text, Finish string
	Salvaged             bool
	Steps                []step
}

type step struct {
	Text     string
	Attempts []attempt
	Calls    []call
}

type attempt struct {
	Attempt        int
	Outcome, Class string
	Usage          struct {
		Input   int `json:"input_tokens"`
		Output  int `json:"output_tokens"`
		Partial bool
	}
}

type call struct {
	Tool, Args, Key, Outcome string
	Replayed                 bool
}

// told is a turn after its end, as the world sees it.
type told struct {
	feed     *stage.Follower
	state    state
	requests [2]int // that reached the provider, by step
}

// run posts a turn and follows it to its end.
func (w *world) run(ctx context.Context, turn, route, input string) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	f := stage.NewFollower(w.p, turn)
	f.Route = route
	err := f.Post(ctx, input)
	for !f.Over && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // the feed broke off; that is no fault by itself
		err = f.Resume(ctx)
	}
	if !f.Over {
		return told{}, fmt.Errorf("has not ended: %w; last items %+v", err, f.Items[max(0, len(f.Items)-4):])
	}
	out := told{feed: f, requests: w.requests(turn)}
	data, err := w.p.Get(ctx, "/v1/turns/"+turn)
	if err == nil {
		err = json.Unmarshal(data, &out.state)
	}
	return out, err
}

// items lists the feed's items of a type.
func (o told) items(kind string) []stage.Item {
	var out []stage.Item
	for _, i := range o.feed.Items {
		if i.Type == kind {
			out = append(out, i)
		}
	}
	return out
}

// attempts counts those of the state.
func (o told) attempts() (n int) {
	for _, s := range o.state.Steps {
		n += len(s.Attempts)
	}
	return n
}

// accounts lists where the turn's own numbers differ from what the provider saw.
func (o told) accounts() []string {
	var out []string
	for i, s := range o.state.Steps {
		if len(s.Attempts) != o.requests[min(i, 1)] {
			out = append(out, fmt.Sprintf("step %d has %d attempts, the provider saw %d requests", i+1, len(s.Attempts), o.requests[min(i, 1)]))
		}
		for n, a := range s.Attempts {
			if a.Attempt != n+1 {
				out = append(out, fmt.Sprintf("step %d: attempt %d stands at place %d", i+1, a.Attempt, n+1))
			}
		}
	}
	if sum := o.requests[0] + o.requests[1]; o.attempts() != sum {
		out = append(out, fmt.Sprintf("%d attempts, %d requests", o.attempts(), sum))
	}
	for _, c := range append(o.items("completion"), o.items("error")...) {
		if c.Attempts != o.attempts() {
			out = append(out, fmt.Sprintf("%s says %d attempts, the state has %d", c.Type, c.Attempts, o.attempts()))
		}
	}
	return out
}
