package fold_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/fold"
)

// The call of an abandoned attempt is shown to be the same effect as the winner's, by the
// key that it would have had; looking at it changes nothing.
func TestAsked(t *testing.T) {
	s := stateOf(t, `
tool refund keyed identity=order redact=/note
1.1 started t1
1.1 call 0 #0 c1 refund {"order":"O-1","note":"one"}
1.1 call 1 #1 c2 refund {"order":"O-2","no
1.1 call 2 #2 c3 gone {"pin":"1"}
1.1 failed 3 connection
1.2 started t2
1.2 call 0 #0 c7 refund {"note":"two","order":"O-1"}
1.2 finished 1
`)
	before := fmt.Sprintf("%+v", s.View())
	var got []string
	for _, a := range s.Asked() {
		got = append(got, fmt.Sprintf("%d.%d #%d %s %s %s whole=%v call=%s", a.Step, a.Attempt, a.Index, a.ProviderID, a.Tool, a.Args, a.Whole, a.Call))
	}
	want := []string{
		`1.1 #0 c1 refund {"order":"O-1","note":"[redacted]"} whole=true call=`,
		`1.1 #1 c2 refund "[redacted]" whole=false call=`,
		`1.1 #2 c3 gone "[redacted]" whole=true call=`,
		`1.2 #0 c7 refund {"note":"[redacted]","order":"O-1"} whole=true call=1.0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	list := s.Asked()
	if list[0].Key == "" || list[0].Key != list[3].Key || list[3].Key != s.Call("1.0").Key || list[1].Key+list[2].Key != "" {
		t.Errorf("keys: %q %q %q %q", list[0].Key, list[1].Key, list[2].Key, list[3].Key)
	}
	if after := fmt.Sprintf("%+v", s.View()); after != before {
		t.Error("asking changed the state")
	}
}

// What is not redacted is shown as it came.
func TestAskedOpenly(t *testing.T) {
	s := stateOf(t, "tool refund keyed identity=*\n1.1 started t1\n1.1 call 0 #0 c1 gone {\"a\n1.1 failed 1 connection")
	if list := s.Asked(); len(list) != 1 || list[0].Args != `{"a` || list[0].Whole {
		t.Errorf("asked: %+v", list)
	}
}

// Each kind of count of the loop breaker is told beside its cap.
func TestLoopCounts(t *testing.T) {
	s := stateOf(t, `
rules 1
tool refund keyed identity=* cap=3
tool find read rows=/rows
1.1 started t1
1.1 call 0 #0 c1 refund {"order":"O-1"}
1.1 call 1 #1 c2 find {"q":"a"}
1.1 call 2 #2 c3 find {"q":"b"}
1.1 finished 3
settled 1.0 failed class=http_400 "no"
settled 1.1 succeeded {"rows":[]}
settled 1.2 succeeded {"rows":[7]}
`)
	key := s.Call("1.0").Key
	want := []fold.LoopCount{
		{Tool: "find", Kind: "empty", Count: 1, Most: 2},
		{Tool: "find", Kind: "rows", Count: 1, Most: 2},
		{Tool: "refund", Kind: "ends", Class: "http_400", Count: 1, Most: 3, Keys: []string{key}},
	}
	if got := s.LoopCounts(); !reflect.DeepEqual(got, want) {
		t.Errorf("counts: %+v\nwant: %+v", got, want)
	}
}
