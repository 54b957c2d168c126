//go:build !unix

package tool

import "os/exec"

// ownGroup does nothing where there are no process groups: only the program itself
// is killed.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill() // it may have ended
	}
}
