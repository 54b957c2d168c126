package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is the product when this variable is set: tests run the real process.
const asProduct = "TURNFOLD_TEST_AS_PRODUCT"

func TestMain(m *testing.M) {
	if os.Getenv(asProduct) != "" {
		main()
	}
	os.Exit(m.Run())
}

// product is a command line in a folder of its own.
func product(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProduct+"=1", "TEST_KEY=secret-of-the-test")
	return cmd
}

// invoke runs a command line to its end.
func invoke(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return finish(t, product(t, dir, args...))
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCommandLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "turnfold.yaml", "listen: 127.0.0.1:1\nnats: {store_dir: ./store}\n")
	write(t, dir, "bad.yaml", "listne: 127.0.0.1:1\n")
	write(t, dir, "good-tools.yaml", "tools:\n- {name: pay, description: Pay., effect: keyed, identity: [order], parameters: {type: object, required: [order], properties: {order: {type: string}, note: {type: string}}}, run: {http: {url: 'http://127.0.0.1:1/'}}}\n")
	write(t, dir, "bad-tools.yaml", "tools:\n- {name: pay, effect: keyed, parameters: {type: object, properties: {order: {type: string}}}, run: {http: {url: 'http://127.0.0.1:1/'}}}\n")
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 0, "serve", ""},
		{"--help", 0, "Exit codes", ""},
		{"serve --help", 0, "--roles", ""},
		{"run --help", 0, "one turn", ""},
		{"frobnicate", 2, "", "frobnicate"},
		{"--nope", 2, "", "--nope"},
		{"serve --roles cook", 2, "", "cook"},
		{"serve extra", 2, "", "usage"},
		{"serve --config bad.yaml", 2, "", "bad.yaml:1: listne"},
		{"serve --config absent.yaml", 2, "", "absent.yaml"},
		{"run", 2, "", "arg"},
		{"show", 2, "", "arg"},
		{"show t1", 4, "", "no server answers"},
		{"tail", 4, "", "no server answers"},
		{"audit", 2, "", "--all"},
		{"audit t1 --all", 2, "", "--all"},
		{"audit t1", 4, "", "no server"},
		{"effects k --turn t", 2, "", "not both"},
		{"effects", 4, "", "no server"},
		{"effects --unknown", 4, "", "no server"},
		{"effects k --unknown", 2, "", "one key"},
		{"effects resolve k", 2, "", "--as"},
		{"effects resolve k --as failed --by ann", 2, "", "--why"},
		{"effects resolve k --as failed --by ann --why x", 4, "", "no server"},
		{"effects resolve k --as failed --by ann --reason x", 4, "", "no server"},
		{"erase t1 --why x", 4, "", "no log"},
		{"deny t1 1.0 --why x", 4, "", "no server"},
		{"approve t1", 2, "", "arg"},
		{"approve t1 1.0 --digest x", 4, "", "no server"},
		{"deny t1 1.0", 4, "", "no server"},
		{"show t1 --server ftp://x", 2, "", "--server"},
		{"--set x show t1", 2, "", "--set"},
		{"--set listne=x config check", 2, "", "listne"},
		{"config", 2, "", "print"},
		{"config check", 0, "ok", ""},
		{"config check --json", 0, `"ok":true`, ""},
		{"config check --config bad.yaml", 2, "", "listne"},
		{"config print", 0, "store_dir", ""},
		{"config print --json", 0, `"listen": "127.0.0.1:1"`, ""},
		{"config check --set tools_file=bad-tools.yaml", 2, "", "identity"},
		{"tools lint", 2, "", "tools_file"},
		{"tools lint good-tools.yaml", 0, "identity", ""},
		{"tools lint bad-tools.yaml", 1, "no identity", ""},
		{"tools lint bad-tools.yaml --json", 1, `"findings":[{`, ""},
		{"tools lint absent.yaml", 2, "", "absent"},
		{"version", 0, "turnfold ", ""},
		{"version --json", 0, `"format":1`, ""},
		{"doctor", 1, "none is configured", ""},
	} {
		code, stdout, stderr := invoke(t, dir, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("turnfold %s: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
		if c.code == 2 && stdout != "" {
			t.Errorf("turnfold %s: a usage error writes data: %s", c.args, stdout)
		}
	}
}

// provide serves the openai-chat API: one text, or nothing until it is told to.
func provide(t *testing.T, hold <-chan struct{}) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the request does not matter
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello "}}]}`+"\n\n")
		http.NewResponseController(w).Flush()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprint(w, `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"there."}}]}`+"\n\n"+
			`data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

func configure(t *testing.T, providerURL, more string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "turnfold.yaml", fmt.Sprintf(`listen: 127.0.0.1:0
nats: {store_dir: ./store}
partitions: 2
providers: {main: {api: openai-chat, base_url: %s, api_key_env: TEST_KEY, model: m}}
%s`, providerURL, more))
	return dir
}

// serving is a running server and its address.
type serving struct {
	cmd  *exec.Cmd
	url  string
	errs *bytes.Buffer
}

func serve(t *testing.T, dir string) *serving {
	t.Helper()
	cmd := product(t, dir, "serve")
	s := &serving{cmd: cmd, errs: new(bytes.Buffer)}
	cmd.Stderr = s.errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v\n%s", err, s.errs)
	}
	hint, _ := r.ReadString('\n')
	if !strings.Contains(hint, "nats --server") {
		t.Errorf("no hint: %q", hint)
	}
	_, s.url, _ = strings.Cut(strings.TrimSpace(line), "listens on ")
	until := time.Now().Add(time.Minute)
	for {
		res, err := http.Get(s.url + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == 200 {
				return s
			}
		}
		if time.Now().After(until) {
			t.Fatalf("not ready: %v\n%s", err, s.errs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// end sends SIGTERM and gives the exit code and how long it took.
func (s *serving) end(t *testing.T) (int, time.Duration) {
	t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // the code says it
	return s.cmd.ProcessState.ExitCode(), time.Since(began)
}

func TestServe(t *testing.T) {
	t.Parallel()
	dir := configure(t, provide(t, nil), "")
	s := serve(t, dir)
	at := []string{"--server", s.url}
	verb := func(want int, contains string, args ...string) string {
		t.Helper()
		code, stdout, stderr := invoke(t, dir, append(args, at...)...)
		if code != want || !strings.Contains(stdout, contains) {
			t.Errorf("turnfold %v: exit %d, want %d with %q\nstdout: %s\nstderr: %s", args, code, want, contains, stdout, stderr)
		}
		return stdout
	}
	verb(0, "Hello there.", "run", "Hi", "--turn", "t1")
	verb(1, "", "run", "another", "--turn", "t1") // 409
	verb(2, "", "run", "Hi", "--route", "nowhere")
	verb(0, "Hello there.", "show", "t1")
	verb(1, "", "show", "t2")
	verb(0, "Hello there.", "tail", "t1")
	verb(2, "", "tail")
	verb(0, "t1: ok", "audit", "t1")
	verb(0, "t1: ok", "audit", "--all")
	verb(0, "t1: ok", "audit", "--since", "1h")
	evidence(t, dir, verb)
	verb(0, "", "effects", "--turn", "t1")
	verb(2, "", "effects", "nokey")
	verb(0, "", "effects", "--unknown")
	verb(0, "", "effects", "--unknown", "--all")
	verb(1, "", "approve", "t1", "1.0")
	for line := range strings.Lines(verb(0, "message_saved", "tail", "t1", "--json")) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not a line of JSON: %s", line)
		}
	}
	if code, took := s.end(t); code != 0 || took > 20*time.Second {
		t.Errorf("an idle server ends with %d after %s\n%s", code, took, s.errs)
	}
	if strings.Contains(s.errs.String(), "secret-of-the-test") {
		t.Error("the key is in the log")
	}
	// Without a server, run starts everything on the same store and finds the turn.
	code, stdout, stderr := invoke(t, dir, "run", "Hi", "--turn", "t1", "--set", "listen=127.0.0.1:1")
	if code != 0 || !strings.Contains(stdout, "Hello there.") {
		t.Errorf("run by itself: exit %d\nstdout: %s\nstderr: %s", code, stdout, stderr)
	}
}

// A running turn gets the grace, and ends within it.
func TestGrace(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	dir := configure(t, provide(t, hold), "shutdown_grace: 20s\n")
	s := serve(t, dir)
	res, err := http.Post(s.url+"/v1/turns", "application/json", strings.NewReader(`{"turn":"t1","input":"Hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "Hello ") {
			break
		}
	}
	time.AfterFunc(500*time.Millisecond, func() { close(hold) })
	code, took := s.end(t)
	rest, err := io.ReadAll(r)
	if code != 0 || took < 400*time.Millisecond || took > 19*time.Second || err != nil || !strings.Contains(string(rest), "message_saved") {
		t.Errorf("exit %d after %s; the feed went on with %s (%v)\n%s", code, took, rest, err, s.errs)
	}
}

// evidence exports, signs and verifies a bundle of the turn t1, and replays it.
func evidence(t *testing.T, dir string, verb func(code int, want string, args ...string) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, err1 := x509.MarshalPKCS8PrivateKey(private)
	open, err2 := x509.MarshalPKIXPublicKey(public)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	write(t, dir, "pub.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})))
	verb(0, "t1.ndjson", "audit", "export", "t1", "t1.ndjson")
	verb(0, "all.ndjson", "audit", "export", "--all", "all.ndjson", "--sign", "key.pem")
	verb(1, "", "audit", "export", "nosuch", "nosuch.ndjson")
	verb(0, "ok: 1 turns", "audit", "verify", "t1.ndjson")
	verb(0, "signed by", "audit", "verify", "all.ndjson", "--key", "pub.pem")
	verb(3, "", "audit", "verify", "t1.ndjson", "--key", "pub.pem")
	verb(3, "", "audit", "verify", "t1.ndjson", "--deployment", "another")
	verb(0, "message_saved", "replay", "t1.ndjson")
	verb(0, "Hello there.", "replay", "t1", "--state")
	verb(0, "running", "show", "t1", "--as-of", "1")
	verb(0, "won", "cost")
	if left, err := filepath.Glob(filepath.Join(dir, "*.part-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	// In an empty folder, with nothing but the bundle.
	empty := t.TempDir()
	raw, err := os.ReadFile(filepath.Join(dir, "all.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, empty, "all.ndjson", string(raw))
	write(t, empty, "bad.ndjson", strings.Replace(string(raw), "Hello", "Hellp", 1))
	if code, out, errs := invoke(t, empty, "audit", "verify", "all.ndjson"); code != 0 {
		t.Errorf("exit %d: %s %s", code, out, errs)
	}
	if code, _, errs := invoke(t, empty, "audit", "verify", "bad.ndjson"); code != 3 || !strings.Contains(errs, "line") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
