package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/embed"
)

// What is installed, once per machine.
const (
	mockPackage = "@copilotkit/aimock"
	mockVersion = "1.43.0"
)

// installed gives the program of the mock. Without npm the tests cannot run; in CI that
// is a failure.
func installed(t *testing.T) string {
	t.Helper()
	notRun := func(format string, args ...any) {
		if os.Getenv("CI") == "true" {
			t.Fatalf(format, args...)
		}
		why := fmt.Sprintf("NOT RUN: "+format, args...)
		fmt.Fprintln(os.Stderr, why)
		t.Skip(why)
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			notRun("%s is not installed, so no foreign mock provider was asked", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "turnfold-test", "mock-provider-"+mockVersion)
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, mockPackage+"@"+mockVersion)
		if out, err := install.CombinedOutput(); err != nil {
			notRun("the mock provider cannot be installed: %v\n%s", err, out)
		}
		if err := os.WriteFile(done, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "node_modules", mockPackage, "dist", "cli.js")
}

// provider is the running mock.
type provider struct{ base string }

// startMock runs the mock with fixtures until the test ends.
func startMock(t *testing.T, fixtures any) provider {
	t.Helper()
	program := installed(t)
	dir := t.TempDir()
	data, err := json.Marshal(fixtures)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "fixtures.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := embed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	// Not npx, which leaves the server running. Without latency a cut comes before the
	// first byte.
	cmd := exec.Command("node", program, "-p", port, "-f", dir, "--latency", "15", "--log-level", "warn")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the mock says:\n%s", out.String())
		}
	})
	p := provider{"http://127.0.0.1:" + port}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get(p.base + "/health")
		if err == nil {
			res.Body.Close()
			return p
		}
		if time.Now().After(until) {
			t.Fatalf("the mock does not answer: %v", err)
		}
	}
}

// entry is a request in the mock's journal.
type entry struct {
	Path      string
	Timestamp int64 // milliseconds
	Response  struct{ Status int }
	Headers   map[string]string
}

// journal lists what the mock received under a test's id. It waits for as many requests as
// are expected: a turn may have its answer before the mock has written the entry.
func (p provider) journal(t *testing.T, id string, want int) (out []entry) {
	t.Helper()
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if out = p.entries(t, id); len(out) >= want || time.Now().After(until) {
			break
		}
	}
	for _, e := range out {
		for name := range e.Headers {
			if strings.Contains(name, "idempotency") { // it would invite HTTP layers to send again
				t.Errorf("%s: request with the header %s", id, name)
			}
		}
	}
	return out
}

func (p provider) entries(t *testing.T, id string) (out []entry) {
	t.Helper()
	res, err := http.Get(p.base + "/__aimock/journal?testId=" + url.QueryEscape(id))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatalf("journal: %v in %.200s", err, data)
	}
	return out
}
