package clients

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/reducer/render"
)

var record = flag.Bool("record", false, "record the feeds of real turns into the conformance kit")

const kitDir = "../../../reducer/render/testdata/kit"

type expected struct {
	Text string `json:"text"`
	Ends string `json:"ends"`
	Anew bool   `json:"anew"`
}

func readKit(t *testing.T) map[string]expected {
	t.Helper()
	want := map[string]expected{}
	data, err := os.ReadFile(filepath.Join(kitDir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestRecord adds the feeds of two real turns to the kit: one whose first attempt breaks,
// and one that goes well.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("only with -record")
	}
	w := newWorld(t)
	want := readKit(t)
	for _, name := range []string{"recorded-reset", "recorded-plain"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := stage.NewFollower(w.p, name)
		if err := f.Post(ctx, "kit"); err != nil {
			t.Fatal(err)
		}
		data, err := w.p.Get(ctx, "/v1/turns/"+name+"/feed")
		if err != nil {
			t.Fatal(err)
		}
		var lines strings.Builder
		for line := range strings.Lines(string(data)) {
			if !strings.Contains(line, `"type":"ping"`) {
				lines.WriteString(line)
			}
		}
		if err := os.WriteFile(filepath.Join(kitDir, name+".ndjson"), []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		want[name] = expected{Text: winner, Ends: "completion"}
	}
	data, err := json.MarshalIndent(want, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(kitDir, "expected.json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// encoded is a feed as one kind of client gets it.
func encoded(t *testing.T, list []render.Item, e render.Encoder, hold bool) (body []byte, ok bool) {
	t.Helper()
	filter := &render.Hold{}
	body = e.Begin(nil)
	for _, it := range list {
		items := []render.Item{it}
		if hold {
			var err error
			if items, err = filter.Apply(nil, it); errors.Is(err, render.ErrTakenBack) {
				return nil, false
			}
		}
		for _, it := range items {
			var err error
			if body, err = e.Append(body, it); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e.End(body, ""), true
}

// TestKitClients gives every feed of the kit to every client, in its own form.
func TestKitClients(t *testing.T) {
	dir := t.TempDir()
	want := readKit(t)
	wanted := map[string]expected{}
	for name, w := range want {
		data, err := os.ReadFile(filepath.Join(kitDir, name+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		var list []render.Item
		for line := range strings.Lines(string(data)) {
			it, err := render.Read([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, it)
		}
		for kind, c := range map[string]struct {
			enc  render.Encoder
			hold bool
		}{
			"native": {render.SSE{}, false}, "native-hold": {render.SSE{}, true}, "ai7-step": {&render.AISDK{}, false},
			"ai7-hold": {&render.AISDK{}, true}, "ai6-hold": {&render.AISDK{}, true}, "openai": {&render.OpenAI{Model: "m", Stream: true}, true},
			"agui": {&render.AGUI{Thread: "t", Run: "r"}, false}, "agui-hold": {&render.AGUI{Thread: "t", Run: "r"}, true},
		} {
			if w.Anew && kind == "ai7-step" {
				continue // committed steps cannot be taken back there: the client connects again
			}
			body, ok := encoded(t, list, c.enc, c.hold)
			if !ok {
				continue
			}
			wanted[name+"."+kind] = w
			if err := os.WriteFile(filepath.Join(dir, name+"."+kind+".sse"), body, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := json.Marshal(wanted)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "wanted.json"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := script(t, "kit", dir)
	for _, fault := range r.Calls {
		t.Error(fault)
	}
	t.Logf("%d feeds in a client's own form", len(wanted))
	if r.Opened != len(wanted) || len(wanted) < 200 {
		t.Errorf("%d of %d forms were read", r.Opened, len(wanted))
	}
}
