package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// How a command can end.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitMismatch    = 3 // an audit found an offence
	exitUnavailable = 4 // a server does not answer
	exitUnknown     = 5 // effects remain of which nobody knows whether they happened
	exitInterrupted = 130
)

// coded is an error with its exit code. Without an Err it was told already.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string {
	if c.err == nil {
		return fmt.Sprintf("exit %d", c.code)
	}
	return c.err.Error()
}

func (c coded) Unwrap() error { return c.err }

func usagef(format string, args ...any) error { return coded{exitUsage, fmt.Errorf(format, args...)} }

func unavailable(err error) error { return coded{exitUnavailable, err} }

// signalled is why a context ended that a signal has ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "signal " + s.String() }

// exitOf tells an error, if it was not told, and gives the exit code.
func exitOf(root *cobra.Command, err, cause error) int {
	if err == nil {
		return exitOK
	}
	var s signalled
	if errors.As(cause, &s) {
		return exitInterrupted
	}
	var c coded
	if !errors.As(err, &c) {
		c = coded{exitFailed, err}
		var faults strict.Faults
		switch {
		case errors.As(err, &faults):
			c.code = exitUsage
		case errors.Is(err, embed.ErrLocked), errors.Is(err, embed.ErrNotReady), errors.Is(err, jet.ErrUnclear):
			c.code = exitUnavailable
		}
	}
	if c.err != nil {
		fmt.Fprintln(root.ErrOrStderr(), "turnfold:", err)
	}
	return c.code
}
