package tool

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// pipeGrace is how long output may still come after the program has ended, from
// children that hold its pipes.
const pipeGrace = time.Second

// stderrBytesMax bounds what is kept of a program's error output, from its end.
const stderrBytesMax = 64 << 10

type commandRunner struct {
	argv    []string
	dir     string
	env     []string
	timeout time.Duration
}

func newCommandRunner(d *Declaration, cfg RunnerConfig) (*commandRunner, error) {
	c := d.Run.Command
	if len(c.Argv) == 0 {
		return nil, fmt.Errorf("tool %s: run.command.argv is empty; write the program first", d.Name)
	}
	r := &commandRunner{argv: slices.Clone(c.Argv), dir: c.Dir, timeout: d.Timeout}
	var err error
	if r.env, err = environment(cfg, c.Env, c.PassEnv); err != nil {
		return nil, fmt.Errorf("tool %s: run.command.%w", d.Name, err)
	}
	return r, nil
}

// environment is what a program gets of the outside: PATH, HOME, what its declaration
// sets and what it passes on. Nothing else, so that no secret reaches it by chance.
func environment(cfg RunnerConfig, set map[string]string, pass []string) ([]string, error) {
	var out, missing []string
	for _, name := range []string{"PATH", "HOME"} {
		if value, ok := cfg.Env(name); ok {
			out = append(out, name+"="+value)
		}
	}
	for _, name := range pass {
		value, ok := cfg.Env(name)
		if !ok {
			missing = append(missing, name)
		}
		out = append(out, name+"="+value)
	}
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	if len(missing) > 0 {
		return nil, fmt.Errorf("pass_env: set the environment variable %s", strings.Join(missing, " and "))
	}
	return out, nil
}

// Run starts the program once, writes the arguments to its input and waits for it.
func (r *commandRunner) Run(ctx context.Context, c Call) Result {
	ctx, cancel := withTimeout(ctx, c, r.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.argv[0], r.argv[1:]...)
	cmd.Dir = r.dir
	cmd.Env = append(slices.Clone(r.env),
		"TURNFOLD_KEY="+c.Key, "TURNFOLD_TENANT="+c.Tenant, "TURNFOLD_TURN="+c.Turn, "TURNFOLD_CALL="+c.Call,
		"TURNFOLD_TOOL="+c.Tool, "TURNFOLD_STEP="+strconv.Itoa(c.Step), "TURNFOLD_ATTEMPT="+strconv.Itoa(c.Attempt))
	cmd.Stdin = strings.NewReader(argsOf(c))
	var stdout answer
	var stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = pipeGrace
	ownGroup(cmd) // so that the children of a program end with it
	if err := cmd.Start(); err != nil {
		if class := classOf(ctx); class != "" {
			return unsent(class, "not started: the time was up")
		}
		return unsent(ClassNotStarted, "not started: "+err.Error())
	}
	_ = cmd.Wait() // the process state says more than the error
	return r.result(ctx, cmd, &stdout, stderr.last())
}

func (r *commandRunner) result(ctx context.Context, cmd *exec.Cmd, stdout *answer, stderr []byte) Result {
	state := cmd.ProcessState
	if state == nil {
		return inDoubt(ClassConnection, "started, but its end was not seen")
	}
	out := bytes.TrimSpace(stdout.buf.Bytes())
	if state.Exited() && state.ExitCode() == 0 {
		return Result{Outcome: effect.Succeeded, Body: answerText(stdout.buf.Bytes(), stdout.over), Detail: "exit 0", Ran: true}
	}
	switch classOf(ctx) {
	case ClassTimeout:
		return inDoubt(ClassTimeout, "killed: no end in time")
	case ClassInterrupted:
		return inDoubt(ClassInterrupted, "killed: turnfold stopped before it ended")
	}
	result := Result{Outcome: effect.Failed, Ran: true}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		class := fmt.Sprintf("signal_%d", int(status.Signal()))
		return inDoubt(class, "killed by "+status.Signal().String())
	}
	code := state.ExitCode()
	if killedInside(code) {
		result.Outcome = effect.Unknown
	}
	result.Detail = fmt.Sprintf("exit %d", code)
	result.ErrorClass = errorClass(stdout.buf.Bytes(), fmt.Sprintf("exit_%d", code))
	switch {
	case len(out) > 0:
		result.Body = answerText(stdout.buf.Bytes(), stdout.over)
	case len(stderr) > 0:
		result.Body = strings.ToValidUTF8(string(stderr), "\uFFFD") // its start may be cut inside a letter
	default:
		result.Body = result.Detail
	}
	return result
}

// killedInside tells the status with which a shell reports that the program it ran
// was killed by a signal (128 + 1…31). What that program had done by then is unknown.
func killedInside(code int) bool { return code > 128 && code <= 128+31 }

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - stderrBytesMax; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}

func (t *tail) last() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.bytes)
}
