package tool

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// nodeVersion is the version of the reference servers that these tests were written
// against.
const nodeVersion = "2026.8.31"

// nodeServers installs the reference servers once per machine. Without npm the tests
// cannot run; in CI that is a failure.
func nodeServers(t *testing.T) (programs func(name string) string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", program)
		}
		t.Skipf("NOT RUN: %s is not installed, so no reference MCP server was spoken to", program)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "turnfold-test", "mcp-servers-"+nodeVersion)
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		args := []string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir}
		for _, name := range []string{"memory", "filesystem", "everything"} {
			args = append(args, "@modelcontextprotocol/server-"+name+"@"+nodeVersion)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("npm install: %v\n%s", err, out)
			}
			t.Skipf("NOT RUN: the reference MCP servers cannot be installed: %v\n%s", err, out)
		}
		if err := os.WriteFile(done, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, "node_modules", ".bin", "mcp-server-"+name) }
}

func nodeServer(t *testing.T, program string, env map[string]string, args ...string) *MCPServer {
	t.Helper()
	return &MCPServer{Name: "node", Argv: append([]string{program}, args...), Dir: t.TempDir(), Env: env}
}

// One Run is one observation, although the memory server would store a second one.
func TestMCPMemory(t *testing.T) {
	programs := nodeServers(t)
	store := filepath.Join(t.TempDir(), "memory.jsonl")
	server := nodeServer(t, programs("memory"), map[string]string{"MEMORY_FILE_PATH": store})
	cfg := RunnerConfig{links: &links{}}
	run := func(name string, class effect.Class, args string) Result {
		return newRunner(t, mcpTool(server, name, class), cfg).Run(t.Context(), mcpCall(args))
	}
	check(t, run("create_entities", effect.Once, `{"entities":[{"name":"ORD-1","entityType":"order","observations":[]}]}`), effect.Succeeded, "", true)
	for i := range 3 {
		check(t, run("add_observations", effect.Once, `{"observations":[{"entityName":"ORD-1","contents":["refund `+string(rune('a'+i))+`"]}]}`), effect.Succeeded, "", true)
	}
	got := run("read_graph", effect.Read, "")
	var graph struct {
		Entities []struct{ Observations []string }
	}
	if err := json.Unmarshal([]byte(got.Body), &graph); err != nil || len(graph.Entities) != 1 || len(graph.Entities[0].Observations) != 3 {
		t.Errorf("graph %s: %v", got.Body, err)
	}
	got = run("add_observations", effect.Once, `{"observations":[{"entityName":"ORD-2","contents":["x"]}]}`)
	check(t, got, effect.Unknown, ClassTool, true)
	if !strings.Contains(got.Body, "ORD-2") {
		t.Errorf("body %q", got.Body)
	}

	// The server dies; the next call gets a new one, which finds what is in its file.
	s := newRunner(t, mcpTool(server, "add_observations", effect.Once), cfg).(*mcpRunner).link.current
	s.kill()
	<-s.dead
	check(t, run("read_graph", effect.Read, ""), effect.Succeeded, "", true)
	data, err := os.ReadFile(store)
	if err != nil || strings.Count(string(data), "refund ") != 3 {
		t.Errorf("store %s: %v", data, err)
	}
}

func TestMCPFilesystem(t *testing.T) {
	programs := nodeServers(t)
	dir := t.TempDir()
	server := nodeServer(t, programs("filesystem"), nil, dir)
	path := filepath.Join(dir, "a.txt")
	quoted, _ := json.Marshal(path)
	if err := os.WriteFile(path, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := RunnerConfig{links: &links{}}
	run := func(name string, class effect.Class, args string) Result {
		return newRunner(t, mcpTool(server, name, class), cfg).Run(t.Context(), mcpCall(args))
	}
	edit := `{"path":` + string(quoted) + `,"edits":[{"oldText":"one","newText":"one one"}]}`
	check(t, run("edit_file", effect.Once, edit), effect.Succeeded, "", true)
	if data, _ := os.ReadFile(path); string(data) != "one one\n" {
		t.Errorf("edited once: %q", data)
	}
	move := `{"source":` + string(quoted) + `,"destination":` + strings.Replace(string(quoted), "a.txt", "b.txt", 1) + `}`
	check(t, run("move_file", effect.Once, move), effect.Succeeded, "", true)
	check(t, run("move_file", effect.Once, move), effect.Unknown, ClassTool, true) // whose work it was, the error does not say
	got := run("read_text_file", effect.Read, strings.Replace(`{"path":`+string(quoted)+`}`, "a.txt", "b.txt", 1))
	if check(t, got, effect.Succeeded, "", true); !strings.Contains(got.Body, "one one") {
		t.Errorf("body %q", got.Body)
	}
}

func TestMCPEverything(t *testing.T) {
	programs := nodeServers(t)
	server := nodeServer(t, programs("everything"), nil, "stdio")
	cfg := RunnerConfig{links: &links{}}
	r := newRunner(t, mcpTool(server, "trigger-long-running-operation", effect.Keyed), cfg)
	c := mcpCall(`{"duration":1,"steps":4}`)
	var heard []int
	c.Progress = func(_ string, percent int) { heard = append(heard, percent) }
	check(t, r.Run(t.Context(), c), effect.Succeeded, "", true)
	if len(heard) < 3 || heard[0] != 25 || heard[2] != 75 { // the last one races with the answer
		t.Errorf("heard %v", heard)
	}
	c.Args, c.Timeout, c.Progress = `{"duration":30,"steps":2}`, 200*time.Millisecond, nil
	check(t, r.Run(t.Context(), c), effect.Unknown, ClassTimeout, true)
	got := newRunner(t, mcpTool(server, "get-sum", effect.Read), cfg).Run(t.Context(), mcpCall(`{"a":2,"b":40}`))
	if check(t, got, effect.Succeeded, "", true); !strings.Contains(got.Body, "42") {
		t.Errorf("body %q", got.Body)
	}
	got = newRunner(t, mcpTool(server, "get-structured-content", effect.Read), cfg).Run(t.Context(), mcpCall(`{"location":"New York"}`))
	if check(t, got, effect.Succeeded, "", true); !strings.HasPrefix(got.Body, `{"temperature"`) {
		t.Errorf("structured %q", got.Body)
	}
	got = newRunner(t, mcpTool(server, "get-tiny-image", effect.Read), cfg).Run(t.Context(), mcpCall(`{}`))
	if check(t, got, effect.Succeeded, "", true); !strings.HasPrefix(got.Body, `{"content":[`) || !strings.Contains(got.Body, `"image/png"`) {
		t.Errorf("image %.80q", got.Body)
	}
}
