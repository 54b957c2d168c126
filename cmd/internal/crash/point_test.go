package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/executor"
)

// lonely are the crash points that one host alone never comes to: they take another one
// that is faster. The explorer of package executor dies there.
var lonely = []string{"abandoned"}

// TestCrashPoints kills the process in every gap between two durable operations of the
// executor, for each class of tools, and follows the turn to its end in a new process:
// at most one effect for once, one key for keyed, and an outcome that says no more and
// no less than what happened (I7, I9, I11).
func TestCrashPoints(t *testing.T) {
	var mu sync.Mutex
	var rows []string
	t.Run("points", func(t *testing.T) {
		for _, point := range executor.CrashPoints() {
			if slices.Contains(lonely, point) {
				continue
			}
			for _, class := range []string{"read", "keyed", "once"} {
				t.Run(point+" "+class, func(t *testing.T) {
					t.Parallel()
					row := newGap(t, point, class).cross(t)
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, row)
				})
			}
		}
	})
	slices.Sort(rows)
	fmt.Printf("%-10s %-6s %8s %7s  %s\n%s\n", "point", "class", "requests", "effects", "outcome", strings.Join(rows, "\n"))
}

// gap is one process that dies in one place.
type gap struct {
	point, class string
	model        *stage.Model
	tool         *stage.Ledger
	p            *stage.Product
}

func newGap(t *testing.T, point, class string) *gap {
	t.Helper()
	g := &gap{point: point, class: class}
	delay := 20 * time.Millisecond
	if g.withdraws() {
		delay = 1500 * time.Millisecond // the other call waits so long for the only place
	}
	g.tool = stage.NewLedger(`{"ok":true}`, delay)
	g.model = stage.NewModel(func(n int, r stage.Request, w *stage.Reply) {
		if r.Answered() {
			w.Text("It is settled. ")
			w.Finish()
			return
		}
		w.Text("One moment. ")
		w.Call(fmt.Sprint("a", n), "act", `{"order":"one"}`)
		if g.withdraws() {
			w.Call(fmt.Sprint("b", n), "act", `{"order":"two"}`)
		}
		w.Finish()
	})
	more := map[string]any{}
	if g.withdraws() {
		more["limits"] = map[string]any{"concurrent_calls": 1}
	}
	var err error
	g.p, err = stage.NewProduct(binary, t.TempDir(), g.model.API(), more,
		stage.Tool{Name: "act", URL: g.tool.URL(), Effect: class, Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.p.Kill()
		g.model.Close()
		g.tool.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(g.p.Dir, "turnfold.log"))
			t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-5000):])
		}
	})
	return g
}

// withdraws says that only a withdrawn call comes to the point.
func (g *gap) withdraws() bool { return g.point == "not_run" || g.point == "withdrawn" }

// cross has the process die there, and follows the turn to its end.
func (g *gap) cross(t *testing.T) string {
	f := stage.NewFollower(g.p, "gap")
	if g.point == "takeover" { // of a claim whose host has lost its memory
		g.die(t, f, "claim")
		if err := os.RemoveAll(filepath.Join(g.p.Dir, "store", "keystore")); err != nil {
			t.Fatal(err)
		}
	}
	g.die(t, f, g.point)
	g.p.Env = nil
	if err := g.p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	s := shop{model: g.model, p: g.p}
	s.finish(t, f)
	return g.judge(t, f)
}

// die starts the process with the point armed and posts the turn.
func (g *gap) die(t *testing.T, f *stage.Follower, point string) {
	t.Helper()
	g.p.Env = []string{executor.CrashPointEnv + "=" + point}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if g.withdraws() {
		g.tool.AfterEffect(func() { g.cancelTurn() })
	}
	posted := make(chan struct{})
	if err := g.p.Start(ctx); err != nil && !strings.Contains(err.Error(), "ended at its start") {
		t.Fatal(err)
	}
	go func() {
		defer close(posted)
		if len(f.Items) == 0 {
			_ = f.Post(ctx, question) // ends with the process
			return
		}
		_ = f.Resume(ctx)
	}()
	if !g.p.WaitDead(30 * time.Second) {
		t.Fatalf("the process has not killed itself at the point %s", point)
	}
	cancel()
	<-posted
}

// cancelTurn cancels the turn. Of that the process dies, perhaps before it has answered, so
// no answer means nothing here: whether it was heard is seen by the death.
func (g *gap) cancelTurn() {
	time.Sleep(200 * time.Millisecond) // the other call is at its place in the queue by then
	if res, err := http.Post(g.p.Base+"/v1/turns/gap/cancel", "application/json", strings.NewReader(`{"by":"test","reason":"x"}`)); err == nil {
		_ = res.Body.Close()
	}
}

// judge holds the turn against the world.
func (g *gap) judge(t *testing.T, f *stage.Follower) string {
	t.Helper()
	for _, fault := range f.Faults() {
		t.Error(fault)
	}
	whole := stage.NewFollower(g.p, "gap")
	if err := whole.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, fault := range whole.Faults() {
		t.Errorf("read from its start: %s", fault)
	}
	if whole.Text() != f.Text() {
		t.Errorf("the follower shows %q, the feed from its start %q", f.Text(), whole.Text())
	}
	if verdict, err := g.p.Audit(context.Background(), "gap"); err != nil || verdict != "" {
		t.Errorf("audit: %q %v", verdict, err)
	}
	requests, keys, calls := len(g.tool.Sent()), g.tool.Effects(), 1
	effects := keys // read and keyed: what the target cannot tell apart is one effect
	if g.class == "once" {
		effects = requests
	}
	if g.withdraws() {
		calls = 2
	}
	outcomes, happened := []string{}, 0
	for _, i := range whole.Items {
		if i.Type == "tool_result" {
			outcomes = append(outcomes, i.Outcome)
			if i.Outcome == "succeeded" || i.Outcome == "unknown" {
				happened++
			}
		}
	}
	slices.Sort(outcomes)
	if len(outcomes) != calls || effects > happened || slices.Contains(outcomes, "succeeded") && effects == 0 || slices.Contains(outcomes, "failed") {
		t.Errorf("%d requests, %d effects, %d calls; outcomes %v", requests, effects, calls, outcomes)
	}
	if g.withdraws() && !slices.Contains(outcomes, "not_run") {
		t.Errorf("outcomes %v; one call had not begun", outcomes)
	}
	if g.class != "once" && slices.Contains(outcomes, "unknown") && !g.withdraws() {
		t.Errorf("outcomes %v; a %s tool runs again", outcomes, g.class)
	}
	return fmt.Sprintf("%-10s %-6s %8d %7d  %s", g.point, g.class, requests, effects, strings.Join(outcomes, ", "))
}
