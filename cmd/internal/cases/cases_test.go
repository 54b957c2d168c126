package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// state is what GET /v1/turns/{turn} says, as far as the test looks at it.
type state struct {
	Finish   string
	Salvaged bool
	Steps    []struct {
		Attempts []struct {
			Outcome, Class string
			Usage          struct {
				Input  int `json:"input_tokens"`
				Output int `json:"output_tokens"`
			}
		}
		Calls []struct{ Outcome string }
	}
}

// TestCases plays each case to its end.
func TestCases(t *testing.T) {
	all := plays(t)
	w := newWorld(t, all)
	t.Run("all", func(t *testing.T) { // ends when the parallel ones have
		for _, p := range all {
			t.Run(p.n+"/"+p.dialect, func(t *testing.T) {
				t.Parallel()
				w.play(t, p)
			})
		}
	})
}

func (w *world) play(t *testing.T, p play) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	f := stage.NewFollower(w.p, p.id())
	f.Route = p.id()
	err := f.Post(ctx, "Help.")
	for !f.Over && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		err = f.Resume(ctx)
	}
	if !f.Over {
		t.Fatalf("has not ended: %v; items %+v", err, f.Items)
	}
	var s state
	data, err := w.p.Get(ctx, "/v1/turns/"+p.id())
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range f.Faults() {
		t.Error(fault)
	}
	if verdict, err := w.p.Audit(ctx, p.id()); err != nil || verdict != "" {
		t.Errorf("audit: %q %v", verdict, err)
	}
	if s.Salvaged != p.salvaged {
		t.Errorf("salvaged %v, want %v", s.Salvaged, p.salvaged)
	}
	if f.Text() != p.text && !p.failed && p.finish == "" {
		t.Errorf("the reader sees %q, want %q", f.Text(), p.text)
	}
	if last := f.Items[len(f.Items)-1]; (last.Type == "error") != p.failed && p.finish == "" {
		t.Errorf("ended with %+v", last)
	}
	if p.finish != "" && s.Finish != p.finish {
		t.Errorf("finish %q, want %q", s.Finish, p.finish)
	}
	p.checkFeed(t, f)
	p.checkState(t, s)
	w.checkWorld(t, p, s)
}

// checkFeed counts the resets.
func (p play) checkFeed(t *testing.T, f *stage.Follower) {
	t.Helper()
	resets := 0
	for _, i := range f.Items {
		if i.Type == "reset" {
			resets++
		}
	}
	if resets != p.resets {
		t.Errorf("%d resets, want %d", resets, p.resets)
	}
}

// checkState looks at the turn's own account.
func (p play) checkState(t *testing.T, s state) {
	t.Helper()
	if len(s.Steps) == 0 {
		t.Fatal("no step")
	}
	var classes, outcomes []string
	attempts := 0
	for _, step := range s.Steps {
		attempts += len(step.Attempts)
		for _, c := range step.Calls {
			outcomes = append(outcomes, c.Outcome)
		}
	}
	for _, a := range s.Steps[0].Attempts {
		if a.Class != "" {
			classes = append(classes, a.Class)
		}
	}
	if attempts != p.requests {
		t.Errorf("%d attempts, want %d: %+v", attempts, p.requests, s.Steps)
	}
	if !slices.Equal(classes, p.classes) {
		t.Errorf("the attempts ended as %q, want %q", classes, p.classes)
	}
	if p.finish == "" && !slices.Equal(outcomes, p.outcomes) {
		t.Errorf("calls ended as %q, want %q", outcomes, p.outcomes)
	}
	if u := s.Steps[0].Attempts[p.usageAt].Usage; p.usage != [2]int{} && [2]int{u.Input, u.Output} != p.usage {
		t.Errorf("usage %+v, want %v", u, p.usage)
	}
}

// checkWorld looks at what reached the provider and the tools.
func (w *world) checkWorld(t *testing.T, p play, s state) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	offered, runs, keys := w.offered[p.id()], slices.Clone(w.runs[p.id()]), w.keys[p.id()]
	if len(offered) != p.requests || p.offered != "" && offered != p.offered {
		t.Errorf("requests %q, want %d %q", offered, p.requests, p.offered)
	}
	if len(keys) != p.keys {
		t.Errorf("the tools saw %d keys, want %d", len(keys), p.keys)
	}
	for i, r := range runs {
		if tool, args, _ := strings.Cut(r, " "); len(args) > 70_000 {
			runs[i] = fmt.Sprintf("%s %s", tool, letters)
		}
	}
	slices.Sort(runs)
	switch p.n {
	case "29": // sent again under one key, until its time is over
		if len(runs) == 0 {
			t.Error("never sent")
		}
	case "31": // the fifth call does not run
		if len(runs) != 4 {
			t.Errorf("ran %q, want four runs", runs)
		}
	default:
		if !slices.Equal(runs, p.runs) {
			t.Errorf("ran %q, want %q", runs, p.runs)
		}
	}
}
