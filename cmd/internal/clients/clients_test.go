package clients

import (
	"slices"
	"testing"
)

// Each client reads a turn whose first attempt breaks after text and a whole call, over a
// connection that holds, and over one that is cut amid the winner's text.
func TestClients(t *testing.T) {
	node(t)
	w := newWorld(t)
	for _, c := range []struct {
		name, script string
		args         []string
		word         string // that the connection is cut after
		check        func(t *testing.T, r result)
	}{
		{"eventsource", "eventsource", nil, "Sorry", nil},
		{"eventsource-parser", "parser", []string{"send"}, "Sorry", nil},
		{"eventsource-parser-hold", "parser", []string{"hold"}, "Sorry", nil},
		{"eventsource-parser-compact", "parser", []string{"compact"}, "Sorry", nil},
		{"ai7-step", "aisdk", []string{"step", "7"}, "Sorry", chatShown(true)},
		{"ai7-hold", "aisdk", []string{"hold", "7"}, "Sorry", chatShown(false)},
		{"ai6-hold", "aisdk", []string{"hold", "6"}, "Sorry", chatShown(false)},
		{"openai-stream", "openai", []string{"stream"}, "Sorry", completed},
		{"openai-whole", "openai", []string{"whole"}, "", completed},
		{"ag-ui", "agui", []string{"snapshot"}, "Sorry", runShown(true)},
		{"ag-ui-hold", "agui", []string{"hold"}, "Sorry", runShown(false)},
	} {
		for _, word := range slices.Compact([]string{"", c.word}) {
			name := c.name
			if word != "" {
				name += "-cut"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := script(t, c.script, append([]string{cut(t, w.p.Base, word), name}, c.args...)...)
				if r.Text != winner {
					t.Errorf("ends with %q, want %q: %+v", r.Text, winner, r)
				}
				if n := w.sent(name); n != 1 || r.Ran != 0 {
					t.Errorf("the tool got %d requests, and the client ran %d", n, r.Ran)
				}
				if word != "" && r.Opened+r.Resumed+r.Errors < 1 {
					t.Errorf("the cut was not noticed: %+v", r)
				}
				if c.check != nil {
					c.check(t, r)
				} else if !slices.Equal(r.Calls, []string{"refund succeeded"}) {
					t.Errorf("calls shown: %v", r.Calls)
				}
			})
		}
	}
}

func chatShown(live bool) func(*testing.T, result) {
	return func(t *testing.T, r result) {
		if r.Status != "ready" || r.Error != "" || r.Messages != 2 || r.Glued || r.Live != live || !slices.Equal(r.Calls, []string{"refund succeeded"}) || r.Saved == "" {
			t.Errorf("the chat shows %+v", r)
		}
	}
}

func runShown(live bool) func(*testing.T, result) {
	return func(t *testing.T, r result) {
		if !r.Kept || r.Saved == "" || r.Live != live || r.Error != "" || !slices.Equal(r.Calls, []string{"refund succeeded"}) {
			t.Errorf("the run shows %+v", r)
		}
	}
}

func completed(t *testing.T, r result) {
	if r.Finish != "stop" || r.Released != 0 || !r.Usage {
		t.Errorf("the completion is %+v", r)
	}
}

// An editor sees the winner only, and its agent goes on over a cut connection by itself.
func TestEditor(t *testing.T) {
	node(t)
	w := newWorld(t)
	for name, word := range map[string]string{"acp": "", "acp-cut": "Sorry"} {
		r := script(t, "acp", cut(t, w.p.Base, word), name, binary, w.p.Dir)
		if r.Text != winner || r.Messages != 2 || w.sent(name) != 1 || r.Finish != "end_turn" || r.Saved == "" || !slices.Equal(r.Calls, []string{"refund succeeded"}) {
			t.Errorf("%s shows %+v, the tool got %d requests", name, r, w.sent(name))
		}
	}
}

// An agent that runs its own tools changes nothing but its base URL: it gets whole calls
// of winners only, and runs each once.
func TestPassThrough(t *testing.T) {
	node(t)
	w := newWorld(t)
	for _, name := range []string{"pass", "pass-cut"} {
		word := ""
		if name == "pass-cut" {
			word = "Sorry"
		}
		r := script(t, "openai", cut(t, w.p.Base, word), name, "pass", w.ledger.URL())
		if r.Text != winner || w.sent(name) != 1 || !slices.Equal(r.Calls, []string{"refund succeeded"}) || r.Finish != "stop" {
			t.Errorf("%s: %+v, the tool got %d requests", name, r, w.sent(name))
		}
		if word != "" && r.Errors == 0 {
			t.Errorf("the cut was not noticed: %+v", r)
		}
	}
}
