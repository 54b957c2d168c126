// Package built gives tests the turnfold program as a user would build it.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Into builds turnfold into dir and returns the path of the program.
func Into(dir string) (string, error) {
	binary := filepath.Join(dir, "turnfold")
	build := exec.Command("go", "build", "-o", binary, "github.com/turnfold/turnfold/cmd/turnfold")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build turnfold: %w\n%s", err, out)
	}
	return binary, nil
}

// Main runs a package's tests with turnfold built once for all of them, at the path
// that binary gets, and returns the exit code.
func Main(m *testing.M, binary *string) int {
	dir, err := os.MkdirTemp("", "turnfold-built-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if *binary, err = Into(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
