//go:build unix

package tool

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a program in a process group of its own and kills the group when
// its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel == nil {
		return // not bound to a context
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killGroup kills what is left of a program that ownGroup prepared.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an empty group is what is wanted
	}
}
