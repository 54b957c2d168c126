package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"
)

// pseudoTerminal opens a terminal of a size: what is written to its user's side comes out
// of ours.
func pseudoTerminal(t *testing.T, columns, rows uint16) (ours, users *os.File) {
	t.Helper()
	missing := func(err error) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatalf("no pseudo-terminal: %v", err)
		}
		t.Skipf("NOT RUN: no pseudo-terminal: %v", err)
	}
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		missing(err)
	}
	control := func(request uintptr, arg unsafe.Pointer) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(arg)); errno != 0 {
			missing(errno)
		}
	}
	var lock, n int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&lock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&n))
	size := [4]uint16{rows, columns, 0, 0}
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	users, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		missing(err)
	}
	return ours, users
}

// shownOn is what a terminal of so many columns shows after these bytes.
func shownOn(data []byte, columns int) string {
	lines, row, column := [][]rune{nil}, 0, 0
	down := func() {
		if row++; row == len(lines) {
			lines = append(lines, nil)
		}
	}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		data = data[n:]
		switch {
		case r == '\r':
			column = 0
		case r == '\n':
			down()
		case r == 0x1b && len(data) > 0 && data[0] == '[':
			end := 1 + bytes.IndexFunc(data[1:], func(r rune) bool { return r >= '@' })
			switch count := 1; data[end] {
			case 'A':
				_, _ = fmt.Sscan(string(data[1:end]), &count)
				row -= count
			case 'J':
				lines = lines[:row+1]
				lines[row] = lines[row][:min(column, len(lines[row]))]
			}
			data = data[end+1:]
		default:
			if column == columns {
				column = 0
				down()
			}
			for len(lines[row]) <= column {
				lines[row] = append(lines[row], ' ')
			}
			lines[row][column] = r
			column++
		}
	}
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return out.String()
}

// breaking serves a reply that breaks off after text, and then a whole one.
func breaking(t *testing.T) string {
	t.Helper()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the request does not matter
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text string) {
			fmt.Fprintf(w, `data: {"id":"c1","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", text)
			_ = http.NewResponseController(w).Flush()
		}
		if n.Add(1) == 1 {
			say("These words are of an attempt that breaks off, over more than one line. ")
			panic(http.ErrAbortHandler)
		}
		say("The answer is short.")
		fmt.Fprint(w, `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n")
	}))
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// On a terminal the abandoned words are gone, however they wrapped; in a file they stay,
// and a line says that they were taken back. NO_COLOR takes the colors, not the erasing.
func TestTerminal(t *testing.T) {
	const columns = 20
	for _, noColor := range []string{"", "1"} {
		ours, users := pseudoTerminal(t, columns, 24)
		dir := configure(t, breaking(t), "retry: {backoff: {base: 10ms, max: 20ms}}\n")
		cmd := product(t, dir, "run", "Hi")
		cmd.Stdout = users
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR="+noColor)
		got := make(chan []byte)
		go func() {
			data, _ := io.ReadAll(ours) // ends with an error once nobody has the other side
			got <- data
		}()
		err := cmd.Run()
		_ = users.Close()
		data := <-got
		_ = ours.Close()
		want := "↺ attempt 2: connect\nion\nThe answer is short.\n· stop; attempts 2;\ntokens 3 in, 2 out\n\n"
		if screen := shownOn(data, columns); err != nil || screen != want {
			t.Errorf("NO_COLOR=%s (%v): the screen shows\n%s\nwant\n%s\nof %q", noColor, err, screen, want, data)
		}
		if colored := bytes.Contains(data, []byte("\x1b[33m")); colored != (noColor == "") {
			t.Errorf("NO_COLOR=%s: %q", noColor, data)
		}
	}
	dir := configure(t, breaking(t), "retry: {backoff: {base: 10ms, max: 20ms}}\n")
	code, plain, _ := invoke(t, dir, "run", "Hi")
	want := "These words are of an attempt that breaks off, over more than one line. \n↺ attempt 2: connection\nThe answer is short.\n· stop; attempts 2; tokens 3 in, 2 out\n"
	if code != 0 || plain != want {
		t.Errorf("a file gets (exit %d)\n%s\nwant\n%s", code, plain, want)
	}
}
