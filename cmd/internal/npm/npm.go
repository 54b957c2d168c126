// Package npm installs programs of other makers for tests, once a machine, and runs them
// with Node.
//
// Invariant: nothing is installed twice for one package.json, and what is half installed
// is never taken for whole.
package npm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// installTimeout bounds a download.
const installTimeout = 4 * time.Minute

// Installer gives the folder in which what a package.json names is installed, with the
// scripts of the same folder beside it, for Node looks for packages beside a script.
// The first call does it. The folder is in the user's cache, under name and a hash of
// package.json.
func Installer(name, testdata string) func() (dir string, err error) {
	return sync.OnceValues(func() (string, error) { return install(name, testdata) })
}

func install(name, testdata string) (dir string, err error) {
	spec, err := os.ReadFile(filepath.Join(testdata, "package.json"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	h := fnv.New32a()
	_, _ = h.Write(spec) // a hash never fails
	dir = filepath.Join(cache, name, fmt.Sprintf("%08x", h.Sum32()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), spec, 0o644); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--engine-strict=false")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm install: %w: %s", err, out[max(0, len(out)-400):])
		}
		if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
			return "", err
		}
	}
	return dir, copyScripts(testdata, dir)
}

func copyScripts(from, to string) error {
	var scripts []string
	for _, kind := range []string{"*.mjs", "*.jsx"} {
		list, err := filepath.Glob(filepath.Join(from, kind))
		if err != nil {
			return err
		}
		scripts = append(scripts, list...)
	}
	for _, s := range scripts {
		data, err := os.ReadFile(s)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(s)), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tester is what is needed of a testing.TB.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Need ends a test for which something cannot be had. It says so, and counts: only a
// developer's machine may go without. With CI=true it fails.
func Need(t tester, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("NOT RUN: %s cannot be had: %v", what, err)
	default:
		t.Skipf("NOT RUN: %s cannot be had: %v", what, err)
	}
}

// Run runs a script to its end and reads what it reports: its line that starts with
// RESULT, as JSON. The script's other output is part of an error. env is added to the
// environment.
func Run(ctx context.Context, node, dir, script string, args, env []string, into any) error {
	cmd := exec.CommandContext(ctx, node, append([]string{script}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	for line := range strings.Lines(out.String()) {
		if data, ok := strings.CutPrefix(line, "RESULT "); ok {
			return json.Unmarshal([]byte(data), into)
		}
	}
	return fmt.Errorf("%s %v: %v\n%s\n%s", script, args, err, out.String(), errs.String())
}
