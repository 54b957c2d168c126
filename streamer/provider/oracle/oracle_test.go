package oracle

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	ownanthropic "github.com/turnfold/turnfold/streamer/provider/anthropic"
	owngemini "github.com/turnfold/turnfold/streamer/provider/gemini"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/openairesponses"
	"github.com/turnfold/turnfold/streamer/provider/replay"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// heard is what a reader of one answer is left with.
type heard struct {
	text          string
	calls         []call
	input, output int64
	end           end
	err           error
}

type call struct{ id, name, args string }

type end string

const (
	finished end = "finished"
	length   end = "length"
	filtered end = "filtered"
	failed   end = "failed"
	// silent: the loop ended without an error and without a word about the end. For a
	// user who does not look for that word, it passes for a whole reply.
	silent end = "silent"
)

var apis = map[string]provider.API{"openai-chat": openaichat.API{}, "openai-responses": openairesponses.API{},
	"anthropic-messages": ownanthropic.API{}, "gemini": owngemini.API{}}

// own reads an answer with the project's adapter.
func own(t *testing.T, dialect, base string) (h heard) {
	t.Helper()
	emit := func(b event.Body) error {
		switch b := b.(type) {
		case *event.TextDelta:
			h.text += b.Text
		case *event.CallDelta:
			for len(h.calls) <= b.Index {
				h.calls = append(h.calls, call{})
			}
			c := &h.calls[b.Index]
			c.id, c.name, c.args = c.id+b.ID, c.name+b.Name, c.args+b.Args
		}
		return nil
	}
	if dialect != "gemini" {
		base += "/v1"
	}
	var usage event.Usage
	switch b := provider.NewRequester(provider.Config{}).Attempt(t.Context(), apis[dialect], provider.Endpoint{BaseURL: base, Key: "k"},
		provider.Request{Model: "m", Messages: []provider.Message{{Role: "user", Text: "q"}}}, nil, emit).(type) {
	case *event.AttemptFinished:
		h.end, usage = finished, b.Usage
	case *event.AttemptFailed:
		h.end, usage = failed, b.Usage
		switch {
		case b.Length:
			h.end = length
		case b.Class == event.Filtered:
			h.end = filtered
		}
	}
	h.input, h.output = usage.Input, usage.Output
	return h
}

// differences lists in what two readers differ.
func differences(a, b heard) (out []string) {
	if a.text != b.text {
		out = append(out, "text")
	}
	same := len(a.calls) == len(b.calls)
	for i := range min(len(a.calls), len(b.calls)) {
		x, y := a.calls[i], b.calls[i]
		same = same && x.id == y.id && x.name == y.name && sameArguments(x.args, y.args)
	}
	if !same {
		out = append(out, "calls")
	}
	if a.input != b.input || a.output != b.output {
		out = append(out, "usage")
	}
	if a.end != b.end {
		out = append(out, "end")
	}
	return out
}

// sameArguments compares by meaning, exact to the last digit: one SDK gives values and
// not the text, so that spaces and the order of members cannot be compared.
func sameArguments(a, b string) bool {
	if a == b {
		return true
	}
	x, err := effect.Canonical(a)
	y, err2 := effect.Canonical(b)
	return err == nil && err2 == nil && x == y
}

// body reads a file beside this module, or takes the text itself.
func body(t *testing.T, s string) []byte {
	t.Helper()
	if !strings.HasPrefix(s, "../") {
		return []byte(s)
	}
	data, err := os.ReadFile(filepath.FromSlash(s))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOracles(t *testing.T) {
	for _, s := range samples {
		t.Run(s.dialect+"/"+s.name, func(t *testing.T) {
			server, err := replay.New(replay.Config{Pick: replay.InOrder(replay.Play{Recording: replay.Body(s.name, body(t, s.body)), Fault: s.fault})})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- server.Run(ctx, ln) }()
			base := "http://" + ln.Addr().String()
			ours := own(t, s.dialect, base)
			theirs := sdks[s.dialect](t, base)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := server.Requests(); n != 2 {
				t.Errorf("%d requests for two readers", n)
			}
			if ours.end != s.end {
				t.Errorf("the adapter's end is %s, want %s", ours.end, s.end)
			}
			if got := differences(ours, theirs); !slices.Equal(got, s.differ) || len(got) > 0 && s.why == "" {
				t.Errorf("they differ in %q, the table says %q (%s)\nadapter %+v\nSDK     %+v", got, s.differ, s.why, ours, theirs)
			}
		})
	}
}
