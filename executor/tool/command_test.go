//go:build unix

package tool

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

func shell(script string) *Declaration {
	return &Declaration{Name: "sh", Effect: effect.Keyed, Timeout: 5 * time.Second,
		Run: Run{Command: &Command{Argv: []string{"sh", "-c", script}}}}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name, script string
		outcome      effect.Outcome
		class, body  string
	}{
		{"arguments", "cat", effect.Succeeded, "", aCall().Args},
		{"does not read them", "echo done", effect.Succeeded, "", "done\n"},
		{"environment", `echo $TURNFOLD_KEY $TURNFOLD_TENANT $TURNFOLD_TURN $TURNFOLD_STEP $TURNFOLD_ATTEMPT $TURNFOLD_CALL $TURNFOLD_TOOL "$HOST_ONLY"`,
			effect.Succeeded, "", "tfk1_k acme t1 1 2 1.0 issue_refund \n"},
		{"fails", "echo oops >&2; exit 3", effect.Failed, "exit_3", "oops\n"},
		{"fails silently", "exit 1", effect.Failed, "exit_1", "exit 1"},
		{"fails with a class", `echo '{"error":{"class":"no_order"}}'; exit 1`, effect.Failed, "no_order", `{"error":{"class":"no_order"}}` + "\n"},
		{"kills itself", "kill -9 $$", effect.Unknown, "signal_9", ""},
		{"its child is killed", "sh -c 'kill -9 $$'; exit $?", effect.Unknown, "exit_137", "*"},
		{"not UTF-8", `printf '\377'`, effect.Succeeded, "", "*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOST_ONLY", "x")
			got := newRunner(t, shell(c.script), RunnerConfig{}).Run(t.Context(), aCall())
			check(t, got, c.outcome, c.class, true)
			if c.body != "*" && got.Body != c.body {
				t.Errorf("body %q, want %q", got.Body, c.body)
			}
		})
	}
}

func TestCommandNotStarted(t *testing.T) {
	d := shell("")
	d.Run.Command.Argv = []string{"./not-there"}
	check(t, newRunner(t, d, RunnerConfig{}).Run(t.Context(), aCall()), effect.Failed, ClassNotStarted, false)
	d.Run.Command.Argv = []string{"no-such-program-anywhere"}
	check(t, newRunner(t, d, RunnerConfig{}).Run(t.Context(), aCall()), effect.Failed, ClassNotStarted, false)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	check(t, newRunner(t, shell("echo"), RunnerConfig{}).Run(ctx, aCall()), effect.Failed, ClassInterrupted, false)
}

func TestCommandFromItsFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool.sh"), []byte("#!/bin/sh\necho \"$LANG $TOKEN\"; pwd\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	set, err := Parse(filepath.Join(dir, "tools.yaml"),
		[]byte("tools: [{name: x, effect: read, run: {command: {argv: [./tool.sh], env: {LANG: C}, pass_env: [TOKEN]}}}]"))
	if err != nil {
		t.Fatal(err)
	}
	d, _ := set.Get("x")
	if _, err := NewRunner(d, RunnerConfig{Env: func(string) (string, bool) { return "", false }}); err == nil || !strings.Contains(err.Error(), "TOKEN") {
		t.Errorf("missing variable: %v", err)
	}
	t.Setenv("TOKEN", "tok")
	got := newRunner(t, d, RunnerConfig{}).Run(t.Context(), aCall())
	check(t, got, effect.Succeeded, "", true)
	if !strings.HasPrefix(got.Body, "C tok\n") || !strings.Contains(got.Body, filepath.Base(dir)) {
		t.Errorf("body %q", got.Body)
	}
}

func TestCommandGroupIsKilled(t *testing.T) {
	for _, c := range []struct {
		name, class string
		cause       error
	}{{"timeout", ClassTimeout, nil}, {"interrupted", ClassInterrupted, ErrInterrupted}} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			call := aCall()
			call.Timeout = 600 * time.Millisecond
			if c.cause != nil {
				call.Timeout = 0
				go func() {
					for data, _ := os.ReadFile(file); len(data) == 0 && ctx.Err() == nil; data, _ = os.ReadFile(file) {
						time.Sleep(5 * time.Millisecond) // the program has no other way to tell
					}
					cancel(c.cause)
				}()
			}
			began := time.Now()
			got := newRunner(t, shell("sleep 60 & echo $! > "+file+"; wait"), RunnerConfig{}).Run(ctx, call)
			check(t, got, effect.Unknown, c.class, true)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
			data, _ := os.ReadFile(file)
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatalf("the child has not started: %v", err)
			}
			if !gone(pid) {
				t.Errorf("the child %d is still there", pid)
			}
		})
	}
}

// gone waits until a process has ended; one that nobody has reaped counts as ended.
func gone(pid int) bool {
	for range 400 {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func TestCommandLimits(t *testing.T) {
	got := newRunner(t, shell("head -c 9000000 /dev/zero; head -c 100000 /dev/zero >&2"), RunnerConfig{}).Run(t.Context(), aCall())
	check(t, got, effect.Succeeded, "", true)
	if !strings.Contains(got.Body, "was dropped") {
		t.Errorf("%.100q", got.Body)
	}
	// A child that keeps the pipe open does not hold up the answer.
	began := time.Now()
	got = newRunner(t, shell("sleep 60 & echo done"), RunnerConfig{}).Run(t.Context(), aCall())
	check(t, got, effect.Succeeded, "", true)
	if got.Body != "done\n" || time.Since(began) > 30*time.Second {
		t.Errorf("%q after %s", got.Body, time.Since(began))
	}
}
