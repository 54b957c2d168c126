package fold_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

var rewrite = flag.Bool("rewrite", false, "write what the fold says into testdata; read the diff before keeping it")

// block is one story of a file: what leads to it, its script, and what the fold says.
type block struct{ head, script, want string }

// blocks reads the datadriven form: comment lines, "fold", script, "----", outputs up
// to the next blank line.
func blocks(t *testing.T, text string) []block {
	t.Helper()
	var out []block
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		part += "\n"
		head, rest, ok := strings.Cut("\n"+part, "\nfold\n")
		script, want, ok2 := strings.Cut(rest, "----\n")
		if !ok || !ok2 {
			t.Fatalf("no fold or ---- in:\n%s", part)
		}
		if lines := strings.Count(head, "\n# "); lines < 2 {
			t.Errorf("a story starts with what happens and its rule:\n%s", part)
		}
		out = append(out, block{strings.TrimPrefix(head, "\n"), script, strings.TrimSuffix(want, "\n") + "\n"})
	}
	return out
}

func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var again []string
			for _, b := range blocks(t, string(text)) {
				got := checkStory(t, b)
				again = append(again, b.head+"\nfold\n"+b.script+"----\n"+got)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.Join(again, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func checkStory(t *testing.T, b block) string {
	t.Helper()
	s := parseScript(b.script)
	got, _, problems := tell(s)
	for _, p := range problems {
		t.Errorf("%s\n%s", b.head, p)
	}
	if got != b.want && !*rewrite {
		t.Errorf("%s\n--- want\n%s--- got\n%s", b.head, b.want, got)
	}
	for _, p := range lawProblems(s.events()) {
		t.Errorf("%s\nlaw: %s", b.head, p)
	}
	return got
}

// run folds events from the start.
func run(events []event.Event) (fold.State, []feed.Output, error) {
	state := absent()
	var all []feed.Output
	for _, e := range events {
		next, out, err := fold.Guarded(state, e)
		if err != nil {
			return next, all, err
		}
		state, all = next, append(all, out...)
	}
	return state, all, nil
}

func sameView(a, b fold.State) bool {
	return reflect.DeepEqual(a.View(), b.View()) && reflect.DeepEqual(a.Timers(), b.Timers())
}
