package fold_test

import (
	"os"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// again folds the failure of an attempt and tells whether another one follows.
func again(t *testing.T, class event.Class, entries ...event.Entry) bool {
	t.Helper()
	o := defaults()
	o.Entries = entries
	_, out, err := run([]event.Event{
		{Turn: address, Seq: 1, Body: o},
		{Turn: address, Seq: 2, Body: &event.AttemptStarted{Step: 1, Attempt: 1, Token: "t"}},
		{Turn: address, Seq: 3, Body: &event.AttemptFailed{At: event.At{Step: 1, Attempt: 1, Token: "t"}, Class: class, Retryable: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, ok := out[len(out)-1].Body.(*feed.StepCommand)
	return ok
}

// The table of classes in the documentation is what the fold does, for every class.
func TestClassesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/retries.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[event.Class]string{}
	_, table, _ := strings.Cut(string(text), "| class | means | again |")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		if cell := strings.Split(row, " | "); len(cell) == 3 {
			said[event.Class(strings.Trim(cell[0], "| `"))] = strings.Trim(cell[2], " |\n")
		}
	}
	main, other := event.Entry{Provider: "main", Model: "m"}, event.Entry{Provider: "big", Model: "m"}
	for _, class := range append(event.Classes(), "from_the_future") {
		does := "never"
		if again(t, class, main) {
			does = "yes"
		} else if again(t, class, main, other) {
			does = "elsewhere"
		}
		want, ok := said[class]
		if class == "from_the_future" {
			want, ok = "elsewhere", true
		}
		if !ok || want != does {
			t.Errorf("docs/retries.md says %q of %s; it is %q", want, class, does)
		}
	}
	if len(said) != len(event.Classes()) {
		t.Errorf("docs/retries.md lists %d classes, there are %d", len(said), len(event.Classes()))
	}
}
