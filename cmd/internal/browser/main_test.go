package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/npm"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

var shots = flag.String("shots", "", "keep pictures of the page in this folder")

// binary is the turnfold under test.
var binary string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &binary)) }

var install = npm.Installer("turnfold-browser", "testdata")

// chromium is the browser of this machine.
var chromium = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium is installed")
})

// scriptTimeout bounds a script with its browser. It is long: what is slow here is the
// machine.
const scriptTimeout = 4 * time.Minute

// drive runs a script with a browser.
func drive(t *testing.T, script string, into any, args ...string) {
	t.Helper()
	path, err := chromium()
	npm.Need(t, "a browser", err)
	dir, err := install()
	npm.Need(t, "what drives the browser", err)
	pictures := *shots
	if pictures == "" {
		pictures = t.TempDir()
	}
	if pictures, err = filepath.Abs(pictures); err == nil {
		err = os.MkdirAll(pictures, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	if err := npm.Run(ctx, "node", dir, script+".mjs", args, []string{"CHROMIUM=" + path, "SHOTS=" + pictures}, into); err != nil {
		t.Fatal(err)
	}
}

// clean is what every script reports beside its own facts.
type clean struct {
	Errors    []string // of the console
	Strangers []string // requests to other origins
}

func (c clean) check(t *testing.T) {
	t.Helper()
	for _, e := range c.Errors {
		t.Errorf("the console says: %s", e)
	}
	for _, s := range c.Strangers {
		t.Errorf("a request left for %s", s)
	}
}

// world is a turnfold, its model and its tools.
type world struct {
	p       *stage.Product
	refunds *stage.Ledger
	mu      sync.Mutex
	asked   map[string]int
}

const secret = "DE89-3704-0044"

// newWorld starts a turnfold whose model does what the user's first word says.
func newWorld(t *testing.T, more map[string]any) *world {
	t.Helper()
	w := &world{refunds: stage.NewLedger(`{"refund":"RF-1"}`, 40*time.Millisecond), asked: map[string]int{}}
	slow := stage.NewLedger(`{"ticket":"T-1"}`, 700*time.Millisecond) // longer than anybody waits
	model := stage.NewModel(func(_ int, r stage.Request, out *stage.Reply) {
		w.mu.Lock()
		w.asked[r.Said()]++
		n := w.asked[r.Said()]
		w.mu.Unlock()
		out.Pace = 12 * time.Millisecond
		verb, _, _ := strings.Cut(r.Said(), " ")
		w.reply(verb, n, r, out)
	})
	config := map[string]any{
		"providers": map[string]any{"desk": map[string]any{"api": "openai-chat", "base_url": model.API(), "api_key_env": "TURNFOLD_STAGE_KEY", "model": "demo",
			"price": map[string]any{"input": "2.50", "output": "10"}}},
		"retry": map[string]any{"attempts_per_step": 2, "backoff": map[string]any{"base": "100ms", "max": "1s"}},
	}
	for k, v := range more {
		config[k] = v
	}
	p, err := stage.NewProduct(binary, t.TempDir(), model.API(), config,
		stage.Tool{Name: "issue_refund", URL: w.refunds.URL(), Identity: []string{"order_id"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order_id": "string", "amount": "integer", "note": "string"}},
		stage.Tool{Name: "wire_money", URL: w.refunds.URL(), Effect: "once", Identity: []string{"to"}, Timeout: 10 * time.Second,
			Members: map[string]string{"to": "string", "amount": "integer"}, More: map[string]any{"approval": "always", "redact": []string{"/to"}}},
		stage.Tool{Name: "create_ticket", URL: slow.URL(), Identity: []string{"customer"}, Timeout: 120 * time.Millisecond,
			Members: map[string]string{"customer": "string", "summary": "string"}, More: map[string]any{"cap": 1}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	t.Cleanup(func() {
		p.Kill()
		model.Close()
		w.refunds.Close()
		slow.Close()
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

// winner is what the reader of a refund is left with.
const winner = "Sorry about your order! I am refunding it now. Order ORD-7781 is refunded. "

func (w *world) reply(verb string, n int, r stage.Request, out *stage.Reply) {
	switch {
	case verb == "hello":
		out.Text("Hello, what can I do for you today? ")
		out.Finish()
	case verb == "fail":
		out.Break()
	case verb == "pay" && !r.Answered():
		out.Text("I will wire the money as soon as somebody agrees. ")
		out.Call("call_p1", "wire_money", `{"to":"`+secret+`","amount":9007199254740993}`)
		out.Finish()
	case verb == "pay":
		out.Text("The money is on its way. ")
		out.Finish()
	case verb == "ticket" && r.OffersTools():
		out.Text("Let me open a ticket. ")
		out.Call(fmt.Sprintf("call_t%d", n), "create_ticket", fmt.Sprintf(`{"customer":"cu-77","summary":"helmet missing, wording %d"}`, n))
		out.Finish()
	case verb == "ticket":
		out.Text("I have asked for a ticket; it is being confirmed. ")
		out.Finish()
	case r.Answered():
		out.Text("Order ORD-7781 is refunded. ")
		out.Finish()
	case n == 1:
		out.Text("I am sorry about your order. ")
		out.Call("call_a1", "issue_refund", `{"order_id":"ORD-7781","amount":4900,"note":"damaged"}`)
		out.Text("Refunding the dam")
		if verb == "slow" {
			time.Sleep(1300 * time.Millisecond)
			out.Text("aged ")
		}
		out.Break()
	default:
		out.Text("Sorry about your order! ")
		out.Call("call_b7", "issue_refund", `{"note": "arrived damaged", "amount": 4900, "order_id": "ORD-7781"}`)
		out.Text("I am refunding it now. ")
		out.Finish()
	}
}
