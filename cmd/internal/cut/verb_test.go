package cut

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// verb is a "turnfold provider" command that serves.
type verb struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	base  string
}

func startVerb(t *testing.T, args ...string) *verb {
	t.Helper()
	v := &verb{cmd: exec.Command(binary, append([]string{"provider"}, args...)...)}
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.cmd.Process.Kill() }) // it has ended if the test went well
	v.lines = bufio.NewScanner(out)
	v.base = v.line(t)["base_url"].(string)
	return v
}

// line is the next line of data.
func (v *verb) line(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	if !v.lines.Scan() {
		t.Fatalf("%v ended: %v", v.cmd.Args, v.lines.Err())
	}
	if err := json.Unmarshal(v.lines.Bytes(), &out); err != nil {
		t.Fatalf("%s: %v", v.lines.Text(), err)
	}
	return out
}

func (v *verb) wait(t *testing.T) {
	t.Helper()
	if err := v.cmd.Wait(); err != nil {
		t.Errorf("%v: %v", v.cmd.Args, err)
	}
}

func post(t *testing.T, url string) (body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer no-file-holds-this")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return string(data), err
}

// TestProviderVerbs records a cut answer and a whole one with the real binary, and
// plays the recordings: the client gets the same bytes and the same ends.
func TestProviderVerbs(t *testing.T) {
	files := []string{filepath.Join("testdata", "gemini-1.sse"), filepath.Join("testdata", "gemini-2.sse")}
	dir := t.TempDir()
	const path = "/models/m:streamGenerateContent?alt=sse"
	ask := func(base string) (bodies [2]string) {
		for n := range bodies {
			body, err := post(t, base+path)
			if (err != nil) != (n == 0) {
				t.Errorf("request %d: %v", n+1, err)
			}
			bodies[n] = body
		}
		return bodies
	}
	player := startVerb(t, append([]string{"replay", "--listen", "127.0.0.1:0", "--json", "--once", "--cut-event", "2"}, files...)...)
	recorder := startVerb(t, "record", "--listen", "127.0.0.1:0", "--json", "--upstream", player.base, "--dir", dir)
	bodies := ask(recorder.base)
	for n, file := range files {
		r, err := replay.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		want := string(r.Response.Body)
		if n == 0 {
			want = want[:replay.EventEnds(r.Response.Body)[1]]
		}
		if bodies[n] != want {
			t.Errorf("answer %d is %q, want %q", n+1, bodies[n], want)
		}
	}
	if l := player.line(t); l["recording"] != "gemini-1.sse" || l["end"] != "reset" {
		t.Errorf("%v", l)
	}
	player.wait(t) // --once
	recorded := []string{recorder.line(t)["file"].(string), recorder.line(t)["file"].(string)}
	if err := recorder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	recorder.wait(t)
	for _, file := range recorded {
		if data, err := os.ReadFile(file); err != nil || strings.Contains(string(data), "no-file-holds-this") {
			t.Errorf("%v %s", err, data)
		}
	}
	again := startVerb(t, append([]string{"replay", "--listen", "127.0.0.1:0", "--json"}, recorded...)...)
	if got := ask(again.base); got != bodies {
		t.Errorf("the recordings play %q, want %q", got, bodies)
	}
	if err := again.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	again.wait(t)
}
