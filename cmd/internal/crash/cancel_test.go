package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// desk is a turnfold whose model and tools can be stopped in the middle.
type desk struct {
	t     *testing.T
	model *stage.Model
	slow  *stage.Ledger
	p     *stage.Product
	turn  string
	hold  chan struct{} // the model waits for it where the script says so
}

// script is what the model of a phase does at each request.
type script func(d *desk, n int, w *stage.Reply)

func calls(texts ...string) script {
	return func(d *desk, n int, w *stage.Reply) {
		if n > 1 {
			<-d.hold
			return
		}
		w.Text("Looking. ")
		for i, tool := range texts {
			w.Call(fmt.Sprint("c", i), tool, fmt.Sprintf(`{"order":"O-%d"}`, i))
		}
		w.Finish()
	}
}

func newDesk(t *testing.T, do script, more map[string]any) *desk {
	d := &desk{t: t, turn: "cancelled-turn", hold: make(chan struct{}), slow: stage.NewLedger(`{"done":true}`, 900*time.Millisecond)}
	d.model = stage.NewModel(func(n int, _ stage.Request, w *stage.Reply) { do(d, n, w) })
	tool := func(name string, more map[string]any) stage.Tool {
		return stage.Tool{Name: name, URL: d.slow.URL(), Effect: "once", Identity: []string{"order"}, Timeout: time.Minute,
			Members: map[string]string{"order": "string"}, More: more}
	}
	var err error
	d.p, err = stage.NewProduct(binary, t.TempDir(), d.model.API(), more,
		tool("pay", map[string]any{"concurrency": 1}), tool("hold", map[string]any{"approval": "always"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(d.hold)
		d.p.Kill()
		d.model.Close()
		d.slow.Close()
	})
	return d
}

func (d *desk) until(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("%s: not within 20 s; see %s", what, d.p.Dir)
		}
	}
}

func (d *desk) cancel() {
	d.t.Helper()
	res, err := http.Post(d.p.Base+"/v1/turns/"+d.turn+"/cancel", "application/json", strings.NewReader(`{"by":"ann"}`))
	if err != nil {
		d.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		d.t.Errorf("cancel: %s", res.Status)
	}
}

// state is what the turn says of itself.
type state struct {
	Status, Finish string
	Steps          []struct {
		Attempts []struct{ Outcome string }
		Calls    []struct{ Call, Outcome, Waiting string }
	}
}

func (d *desk) state() (s state) {
	d.t.Helper()
	data, err := d.p.Get(context.Background(), "/v1/turns/"+d.turn)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return state{}
	}
	return s
}

func (s state) outcomes() string {
	var out []string
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			out = append(out, c.Outcome)
		}
	}
	return strings.Join(out, " ")
}

// ended reports whether the calls came to these outcomes. Calls of one reply may run in
// any order, so which of two equals was first is not judged.
func (s state) ended(want string) bool {
	got, expected := strings.Fields(s.outcomes()), strings.Fields(want)
	slices.Sort(got)
	slices.Sort(expected)
	return slices.Equal(got, expected)
}

func (s state) parked() bool {
	return len(s.Steps) > 0 && len(s.Steps[0].Calls) > 0 && s.Steps[0].Calls[0].Waiting != ""
}

// A turn can be cancelled in every phase. It ends soon, as cancelled; what has not begun
// never begins, what has begun gets its honest outcome, and the model is asked no more.
func TestCancelInEveryPhase(t *testing.T) {
	asked := func(n int) func(d *desk) bool { return func(d *desk) bool { return d.model.Requests() >= n } }
	running := func(d *desk) bool { return len(d.slow.Sent()) >= 1 }
	stream := func(d *desk, n int, w *stage.Reply) {
		for i := range 2000 {
			w.Text(fmt.Sprintf("word%d ", i))
		}
	}
	broken := map[string]any{"retry": map[string]any{"backoff": map[string]any{"base": "30s", "max": "30s"}}}
	for _, c := range []struct {
		phase    string
		do       script
		more     map[string]any
		when     func(*desk) bool
		twice    bool
		end      string // item that the feed ends with
		outcomes string
		effects  int
	}{
		{"commanded", func(d *desk, _ int, _ *stage.Reply) { <-d.hold }, nil, asked(1), false, "error", "", 0},
		{"streaming", stream, nil, asked(1), false, "", "", 0},
		{"between attempts", func(d *desk, _ int, w *stage.Reply) { w.Break() }, broken, asked(1), false, "error", "", 0},
		{"calls queued", calls("pay", "pay"), nil, running, false, "completion", "succeeded not_run", 1},
		{"call running", calls("pay"), nil, running, false, "completion", "succeeded", 1},
		{"call parked", calls("hold"), nil, func(d *desk) bool { return d.state().parked() }, false, "completion", "not_run", 0},
		{"one parked, one running", calls("hold", "pay"), nil, running, false, "completion", "not_run succeeded", 1},
		{"between steps", calls("pay"), nil, asked(2), false, "completion", "succeeded", 1},
		{"ending", calls("pay"), nil, running, true, "completion", "succeeded", 1},
	} {
		t.Run(c.phase, func(t *testing.T) {
			d := newDesk(t, c.do, c.more)
			f := stage.NewFollower(d.p, d.turn)
			over := make(chan error, 1)
			go func() { over <- f.Post(t.Context(), "Go.") }()
			d.until("phase", func() bool { return c.when(d) })
			began := time.Now()
			d.cancel()
			if c.twice {
				d.cancel()
			}
			if err := <-over; err != nil || !f.Over {
				t.Fatalf("feed ended with %v", err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s to end", took)
			}
			requests := d.model.Requests()
			s := d.state()
			if s.Finish != "cancelled" || !s.ended(c.outcomes) || d.slow.Effects() != c.effects {
				t.Errorf("finish %s, outcomes %q, %d effects; want cancelled, %q, %d", s.Finish, s.outcomes(), d.slow.Effects(), c.outcomes, c.effects)
			}
			ends := 0
			for _, i := range f.Items {
				if i.Type == "completion" || i.Type == "error" {
					ends++
					if c.end != "" && i.Type != c.end {
						t.Errorf("it ends with %s, want %s", i.Type, c.end)
					}
				}
			}
			if faults := f.Faults(); ends != 1 || len(faults) > 0 {
				t.Errorf("%d ends, faults %v", ends, faults)
			}
			if fault, err := d.p.Audit(t.Context(), d.turn); err != nil || fault != "" {
				t.Errorf("audit: %s, %v", fault, err)
			}
			time.Sleep(300 * time.Millisecond) // whoever would ask again has had the time
			if n := d.model.Requests(); n != requests {
				t.Errorf("the model was asked %d times after the end", n-requests)
			}
			if n := d.slow.Effects(); n != c.effects {
				t.Errorf("%d effects after the end", n)
			}
		})
	}
}
