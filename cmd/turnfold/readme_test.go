package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/cmd/turnfold/demo"
)

// fenced gives the code blocks of a document, by their language.
func fenced(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = append(out[m[1]], m[2])
	}
	return out
}

// TestDemo runs the demo as README says, and holds it against the picture there.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errs := invoke(t, dir, "demo")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	shown := squeeze(out)
	for _, line := range strings.Split(fenced(t, "README.md")[""][0], "\n") {
		if line = squeeze(line); line == "" {
			continue
		}
		part, _, cut := strings.Cut(line, "…")
		if !strings.Contains(shown, part) {
			t.Errorf("README shows %q (cut: %v), the demo does not print it:\n%s", line, cut, out)
		}
	}
	for _, must := range []string{"$ turnfold show demo-policies", "$ turnfold audit demo-policies", "next: turnfold"} {
		if !strings.Contains(out, must) {
			t.Errorf("the demo does not print %q", must)
		}
	}
}

// TestDemoJSON holds the demo's document against what it promises.
func TestDemoJSON(t *testing.T) {
	t.Parallel()
	work := t.TempDir() // where the demo works, and leaves what it did
	cmd := product(t, t.TempDir(), "demo", "--json", "--keep")
	cmd.Env = append(cmd.Env, "TMPDIR="+work)
	code, out, errs := finish(t, cmd)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r demo.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := []demo.Policy{{Name: "naive", Refunds: 2}, {Name: "reset-only", Clean: true, Refunds: 2}, {Name: "turnfold", Clean: true, Refunds: 1}}
	if len(r.Policies) != len(want) {
		t.Fatalf("policies %+v", r.Policies)
	}
	for i, w := range want {
		if p := r.Policies[i]; p.Name != w.Name || p.Clean != w.Clean || p.Refunds != w.Refunds {
			t.Errorf("policy %+v, want %+v", p, w)
		}
	}
	if k := r.Kill; k == nil || k.Kills < 1 || k.Refunds != 1 || k.DuplicateEffects != 0 {
		t.Errorf("kill %+v", r.Kill)
	}
	if l := r.Loop; l == nil || l.NaiveTickets != 14 || l.Tickets != 1 || l.CallsSent != 3 || !l.ToolsOff {
		t.Errorf("loop %+v", r.Loop)
	}
	if r.Audit != "clean" {
		t.Errorf("audit %q", r.Audit)
	}
	for _, scenario := range demo.Scenarios {
		proveAlone(t, filepath.Join(r.Folder, scenario))
	}
}

// proveAlone exports a deployment's history, and proves it with nothing but the binary
// and the bundle, in a folder that has nothing else.
func proveAlone(t *testing.T, deployment string) {
	t.Helper()
	empty := t.TempDir()
	bundle := filepath.Join(empty, "bundle.ndjson")
	if code, out, errs := invoke(t, deployment, "audit", "export", "--all", bundle); code != 0 {
		t.Fatalf("export of %s: exit %d: %s%s", deployment, code, out, errs)
	}
	if err := os.RemoveAll(deployment); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := invoke(t, empty, "audit", "verify", "bundle.ndjson", "--settled"); code != 0 || !strings.Contains(out, "ok: 1 turns, 0 mismatches") {
		t.Errorf("verify of %s: exit %d: %s%s", deployment, code, out, errs)
	}
}

// TestReadmeCommands runs what README shows after the demo: its configuration, a turn
// by HTTP, show and audit.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	model := stage.NewModel(func(_ int, _ stage.Request, w *stage.Reply) { w.Text("Done as asked. "); w.Finish() })
	defer model.Close()
	blocks := fenced(t, "README.md")
	dir := t.TempDir()
	p, err := stage.NewProduct(os.Args[0], dir, model.API(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Env = []string{asProduct + "=1", "OPENAI_API_KEY=x"}
	listen := strings.TrimPrefix(p.Base, "http://")
	config := strings.ReplaceAll(blocks["yaml"][0], "https://api.example.com/v1", model.API())
	write(t, dir, "turnfold.yaml", config+"listen: "+listen+"\n")
	write(t, dir, "tools.yaml", fenced(t, "docs/effects.md")["yaml"][0])
	if err := p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	commands := blocks["sh"][1]
	body := regexp.MustCompile(`-d '([^']*)'`).FindStringSubmatch(commands)
	if body == nil || !strings.Contains(commands, "turnfold serve --config turnfold.yaml") {
		t.Fatalf("README's commands are %s", commands)
	}
	var asked struct{ Input string }
	if err := json.Unmarshal([]byte(body[1]), &asked); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if text, err := p.Turn(ctx, "TURN", asked.Input); err != nil || text != "Done as asked. " {
		t.Fatalf("the turn shows %q: %v", text, err)
	}
	for _, line := range regexp.MustCompile(`(?m)^turnfold (show|audit) TURN$`).FindAllString(commands, -1) {
		if code, out, errs := invoke(t, dir, strings.Fields(line)[1:]...); code != 0 || !strings.Contains(out, "TURN") {
			t.Errorf("%s: exit %d, %s%s", line, code, out, errs)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// TestBenchFeed runs the measurement small, so that it keeps working, and holds an idle
// server to its memory.
func TestBenchFeed(t *testing.T) {
	code, out, errs := invoke(t, t.TempDir(), "bench", "feed", "--turns", "3", "--deltas", "10", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r struct {
		Turns  int   `json:"turns"`
		Deltas int   `json:"deltas"`
		First  int64 `json:"first_delta_p50_us"`
		Idle   int64 `json:"idle_resident_bytes"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Turns != 3 || r.Deltas != 30 || r.First <= 0 {
		t.Errorf("report %s", out)
	}
	if limit := int64(80 << 20); !raceEnabled && r.Idle > limit {
		t.Errorf("an idle server holds %d bytes; %d are allowed", r.Idle, limit)
	}
}

// TestBenchPipeline runs the measurement small, as the docs show it, and holds an open turn
// to its memory.
func TestBenchPipeline(t *testing.T) {
	t.Parallel()
	weighed := "1000"
	if raceEnabled {
		weighed = "200" // the race detector allows 8128 goroutines
	}
	code, out, errs := invoke(t, t.TempDir(), "bench", "pipeline", "--messages", "1000", "--turns", "5", "--for", "200ms", "--weighed", weighed, "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r struct {
		Ratio  float64 `json:"ratio_events"`
		Deltas float64 `json:"ratio_deltas"`
		Live   int64   `json:"live_turn_bytes"`
		Steady struct {
			Turns int   `json:"turns"`
			P99   int64 `json:"delay_p99_us"`
		} `json:"steady"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Ratio <= 0 || r.Deltas <= 0 || r.Steady.Turns != 5 || r.Steady.P99 <= 0 {
		t.Errorf("report %s", out)
	}
	if limit := int64(16 << 10); !raceEnabled && r.Live > limit {
		t.Errorf("an open turn keeps %d bytes; %d are allowed", r.Live, limit)
	}
	if code, out, _ := invoke(t, t.TempDir(), "bench", "pipeline", "--sweep", "--partitions", "0"); code == 0 {
		t.Errorf("measured without a partition: %s", out)
	}
}
