package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// TestNeverFailed has a tool perform and answer too late, and then reads everything
// that turnfold says of it, to anybody: nowhere is it a failure (I7, I11).
func TestNeverFailed(t *testing.T) {
	for _, class := range []string{"read", "keyed", "once"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			tool := stage.NewLedger(`{"ok":true}`, 1500*time.Millisecond)
			model := stage.NewModel(func(n int, r stage.Request, w *stage.Reply) {
				if r.Answered() {
					w.Text("It is being confirmed. ")
				} else {
					w.Text("One moment. ")
					w.Call(fmt.Sprint("a", n), "act", `{"order":"one"}`)
				}
				w.Finish()
			})
			p, err := stage.NewProduct(binary, t.TempDir(), model.API(), nil, stage.Tool{Name: "act", URL: tool.URL(), Effect: class,
				Identity: []string{"order"}, Timeout: 300 * time.Millisecond, Members: map[string]string{"order": "string"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				p.Kill()
				model.Close()
				tool.Close()
			})
			if err := p.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Turn(context.Background(), "late", question); err != nil {
				t.Fatal(err)
			}
			if tool.Effects() != 1 {
				t.Fatalf("%d effects", tool.Effects())
			}
			readAll(t, p, model)
		})
	}
}

// said is what would call the late call a failure, in any tense; the class of an
// attempt or an invariant's name does not speak of it.
var said = regexp.MustCompile(`(?i)\bfail(s|ed|ure|ures)?\b|\berror(ed)?\b[^_]`)

// readAll reads every voice that turnfold has.
func readAll(t *testing.T, p *stage.Product, model *stage.Model) {
	t.Helper()
	ctx := context.Background()
	voices := map[string]string{"provider requests": strings.Join(model.Bodies(), "\n")}
	for name, path := range map[string]string{"feed": "/feed", "state": "", "audit": "/audit"} {
		data, err := p.Get(ctx, "/v1/turns/late"+path)
		if err != nil {
			t.Fatal(err)
		}
		voices[name] = string(data)
	}
	show, err := p.Show(ctx, "late")
	if err != nil {
		t.Fatal(err)
	}
	voices["show"] = show
	log, err := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
	if err != nil {
		t.Fatal(err)
	}
	voices["log"] = string(log)
	for name, text := range voices {
		if hit := said.FindStringIndex(text); hit != nil {
			t.Errorf("%s: …%s…", name, text[max(0, hit[0]-160):min(len(text), hit[1]+160)])
		}
	}
	for _, name := range []string{"feed", "state", "show"} {
		if !strings.Contains(voices[name], "unknown") {
			t.Errorf("%s does not say that the outcome is unknown:\n%s", name, voices[name])
		}
	}
	if !strings.Contains(voices["provider requests"], "may have gone through") {
		t.Errorf("the model was told:\n%s", voices["provider requests"])
	}
}
