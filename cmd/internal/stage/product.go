package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnfold/turnfold/subjects/embed"
)

// Tool is a tool as it is declared to turnfold.
type Tool struct {
	Name, URL string
	Effect    string            // keyed if empty
	Identity  []string          // member names; nil declares none
	Members   map[string]string // name → JSON type
	Timeout   time.Duration
	More      map[string]any // other members of its declaration
}

func (t Tool) declaration() map[string]any {
	props := map[string]any{}
	for name, typ := range t.Members {
		props[name] = map[string]any{"type": typ}
	}
	parameters := map[string]any{"type": "object", "properties": props}
	out := map[string]any{"name": t.Name, "description": "Declared by the stage.", "effect": cmp.Or(t.Effect, "keyed"),
		"repeat": "never", "timeout": t.Timeout.String(), "cap": 2, "parameters": parameters,
		"run": map[string]any{"http": map[string]any{"url": t.URL}}}
	if t.Identity != nil {
		out["identity"], parameters["required"] = t.Identity, t.Identity
	}
	maps.Copy(out, t.More)
	return out
}

// Product is a turnfold process with a folder of its own.
type Product struct {
	Binary string
	Dir    string // configuration, log, and store in "store"
	Base   string // URL of its HTTP API
	Env    []string
	Args   []string // of serve, beside its configuration
	Within []string // a command that runs it elsewhere, as in another network
	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan error
	log    *os.File
}

// NewProduct writes the configuration of a turnfold into dir; JSON is YAML. Members of
// more replace those that the stage would set.
func NewProduct(binary, dir, model string, more map[string]any, tools ...Tool) (*Product, error) {
	p := &Product{Binary: binary, Dir: dir}
	listen, err := embed.FreeAddress()
	if err == nil {
		err = os.MkdirAll(p.Dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	p.Base = "http://" + listen
	config := map[string]any{"listen": listen, "nats": map[string]any{"store_dir": "store"}, "tools_file": "tools.yaml",
		"providers": map[string]any{"desk": map[string]any{"api": "openai-chat", "base_url": model,
			"api_key_env": "TURNFOLD_STAGE_KEY", "model": "demo"}},
		"routes": map[string]any{"default": []string{"desk"}},
		"retry":  map[string]any{"backoff": map[string]any{"base": "100ms", "max": "1s"}}}
	maps.Copy(config, more)
	declared := []any{}
	for _, t := range tools {
		declared = append(declared, t.declaration())
	}
	for file, content := range map[string]any{"turnfold.yaml": config, "tools.yaml": map[string]any{"tools": declared}} {
		data, err := json.MarshalIndent(content, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, file), append(data, '\n'), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Start runs "serve" and waits until it is ready.
func (p *Product) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.waitReady(ctx, p.ended)
}

// Launch runs "serve" and waits for nothing, as processes without an HTTP API tell
// nobody that they are ready.
func (p *Product) Launch() error {
	logs, err := os.OpenFile(filepath.Join(p.Dir, "turnfold.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	line := append(append(append([]string{}, p.Within...), p.Binary, "serve", "--config", "turnfold.yaml"), p.Args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, logs, logs
	cmd.Env = append(append(os.Environ(), "TURNFOLD_STAGE_KEY=stage"), p.Env...)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, logs.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.mu.Lock()
	p.cmd, p.ended, p.log = cmd, ended, logs
	p.mu.Unlock()
	return nil
}

// Pause stops the process as SIGSTOP does, or as a host does that swaps, until the
// returned function is called.
func (p *Product) Pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return func() {}
	}
	proc := p.cmd.Process
	_ = proc.Signal(syscall.SIGSTOP) // it may have ended by itself
	return func() { _ = proc.Signal(syscall.SIGCONT) }
}

func (p *Product) waitReady(ctx context.Context, ended chan error) error {
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			ended <- err // Stop and Kill wait for it too
			return fmt.Errorf("turnfold ended at its start: %v; see %s", err, p.log.Name())
		case <-time.After(15 * time.Millisecond):
		}
		if res, err := http.Get(p.Base + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("turnfold is not ready after 20 s; see %s", p.log.Name())
}

// Kill ends the process as kill -9 does, if it runs.
func (p *Product) Kill() {
	p.end(func(proc *os.Process) error { return proc.Kill() })
}

// Stop ends the process as an operator does, and says what is wrong with how it ended.
func (p *Product) Stop() error {
	return p.end(func(proc *os.Process) error { return proc.Signal(syscall.SIGTERM) })
}

func (p *Product) end(signal func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	_ = signal(p.cmd.Process) // it may have ended by itself
	err := <-p.ended
	p.cmd = nil
	return errors.Join(err, p.log.Close())
}

// WaitDead waits until the process has ended by itself, and says whether kill -9 was
// its end.
func (p *Product) WaitDead(patience time.Duration) bool {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	select {
	case err := <-ended:
		ended <- err // Kill waits for it too
		p.Kill()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			return false
		}
		status, ok := exit.Sys().(syscall.WaitStatus)
		return ok && status.Signal() == syscall.SIGKILL
	case <-time.After(patience):
		return false
	}
}

// Turn posts a turn and follows it to its end, as a renderer that connects again
// whenever its connection breaks. It returns what its reader is left looking at.
func (p *Product) Turn(ctx context.Context, id, input string) (string, error) {
	f := NewFollower(p, id)
	err := f.Post(ctx, input)
	for until := time.Now().Add(20 * time.Second); !f.Over && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(50 * time.Millisecond)
		err = f.Resume(ctx)
	}
	if !f.Over {
		return f.Text(), fmt.Errorf("turn %s has not ended: %w", id, err)
	}
	return f.Text(), nil
}

// ResidentBytes is the memory that the process holds, as the kernel counts it.
func (p *Product) ResidentBytes() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, errors.New("turnfold does not run")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}

// Audit gives what is wrong with a turn, or nothing.
func (p *Product) Audit(ctx context.Context, turn string) (string, error) {
	data, err := p.Get(ctx, "/v1/turns/"+turn+"/audit")
	if err != nil {
		return "", err
	}
	var v struct {
		OK         bool `json:"ok"`
		Invariants []struct {
			ID, Detail string
			OK         bool
		} `json:"invariants"`
	}
	if err := json.Unmarshal(data, &v); err != nil || v.OK {
		return "", err
	}
	for _, i := range v.Invariants {
		if !i.OK {
			return i.ID + " " + i.Detail, nil
		}
	}
	return "not ok", nil
}

// Show prints a turn with the command that a user would run.
func (p *Product) Show(ctx context.Context, turn string) (string, error) {
	var out []string
	for _, verb := range []string{"show", "audit"} {
		cmd := exec.CommandContext(ctx, p.Binary, verb, turn, "--config", "turnfold.yaml")
		cmd.Dir = p.Dir
		text, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("turnfold %s %s: %w", verb, turn, err)
		}
		out = append(out, fmt.Sprintf("$ turnfold %s %s\n%s", verb, turn, text))
	}
	return strings.Join(out, "\n"), nil
}

// Get reads a path of its HTTP API.
func (p *Product) Get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Base+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s %.500s", path, res.Status, data)
	}
	return data, err
}
