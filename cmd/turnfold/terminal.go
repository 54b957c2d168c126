//go:build unix

package main

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects/feed"
)

// terminalSize asks the kernel; false if f is no terminal.
func terminalSize(f *os.File) (columns, rows int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0
}

// renderer shows a feed on w: as lines of JSON, or to a person.
func renderer(w io.Writer, asJSON bool) func(render.Item) error {
	if asJSON {
		return render.Lines{W: w}.Apply
	}
	cfg := render.TerminalConfig{W: w}
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if _, _, ok := terminalSize(f); ok {
			cfg.Erase = true
			cfg.Color = os.Getenv("NO_COLOR") == ""
			cfg.Size = func() (int, int) { columns, rows, _ := terminalSize(f); return columns, rows }
		}
	}
	return render.NewTerminal(cfg).Apply
}

// outcome watches a feed for how its turn ends.
type outcome struct{ failed bool }

func (o *outcome) watch(fn func(render.Item) error) func(render.Item) error {
	return func(it render.Item) error {
		if _, bad := it.Body.(*feed.Error); bad {
			o.failed = true
		}
		return fn(it)
	}
}
