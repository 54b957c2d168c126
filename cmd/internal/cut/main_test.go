package cut

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// binary is the turnfold that the tests run.
var binary string

var (
	given    = flag.String("cut.binary", "", "turnfold to test; empty builds it")
	dialect  = flag.String("cut.dialect", "", "one of the dialects; empty is all")
	every    = flag.Int("cut.every", 0, "cut after every so many bytes (default 1; 16 with -race)")
	inFlight = flag.Int("cut.inflight", 32, "turns at a time")
)

// unlimited is a fleet's budget of retries that does not bound a test whose turns are
// nearly all retried.
var unlimited = map[string]any{"fraction": 1000, "per_second": 1_000_000}

var dialects = []string{"openai-chat", "openai-responses", "anthropic-messages", "gemini"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	// Turns in flight must not dial anew for each request to the product.
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = *inFlight
	if binary = *given; binary != "" {
		return m.Run()
	}
	return built.Main(m, &binary)
}

// chosen are the dialects that the flags ask for.
func chosen(t *testing.T) []string {
	t.Helper()
	if *dialect == "" {
		return dialects
	}
	for _, d := range dialects {
		if d == *dialect {
			return []string{d}
		}
	}
	t.Fatalf("-cut.dialect %s: known are %v", *dialect, dialects)
	return nil
}

// world is one turnfold, one provider that speaks four dialects, and one tool.
type world struct {
	p      *stage.Product
	ledger *stage.Ledger
	server *replay.Server
	bodies map[string][3]*replay.Recording // by dialect: first attempt, second, last step

	mu    sync.Mutex
	asked map[string][2]int // requests by turn and step, as the provider counts them
}

// newWorld starts it all. Pick chooses the answer to the n-th request of a turn's step.
func newWorld(t *testing.T, retry, provider map[string]any, pick func(w *world, a asked) replay.Play) *world {
	t.Helper()
	w := &world{ledger: stage.NewLedger(`{"refund":"ok"}`, 0), bodies: map[string][3]*replay.Recording{}, asked: map[string][2]int{}}
	providers, routes := map[string]any{}, map[string]any{}
	base := w.serve(t, pick)
	for _, d := range chosen(t) {
		var b [3]*replay.Recording
		for i := range b {
			r, err := replay.Load(filepath.Join("testdata", fmt.Sprintf("%s-%d.sse", d, i+1)))
			if err != nil {
				t.Fatal(err)
			}
			b[i] = r
		}
		w.bodies[d] = b
		providers[d] = merged(map[string]any{"api": d, "base_url": base + "/v1", "api_key_env": "TURNFOLD_STAGE_KEY", "model": "m"}, provider)
		routes[d], routes["default"] = []string{d}, []string{d}
	}
	p, err := stage.NewProduct(binary, t.TempDir(), "", map[string]any{"providers": providers, "routes": routes, "retry": retry,
		"log": map[string]any{"level": "warn"}},
		stage.Tool{Name: "refund", URL: w.ledger.URL(), Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string", "note": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
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

func merged(a, b map[string]any) map[string]any {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// asked is a request of a turn, as it says itself.
type asked struct {
	turn, dialect, end string
	n                  int // of the marker
	step, request      int // from 1; request counts the step's
}

// marker is how a turn's input tells the provider what to do. It needs no escapes in
// JSON, so that it is found in all dialects.
var marker = regexp.MustCompile(`\[play ([a-z-]+) ([a-z]+) (\d+)\]`)

func mark(dialect, end string, n int) string {
	return fmt.Sprintf("Refund O-1 and O-2. [play %s %s %d]", dialect, end, n)
}

// answered is how each dialect marks a tool's result in a request.
var answered = regexp.MustCompile(`"role":"tool"|"function_call_output"|"tool_result"|"functionResponse"`)

// serve runs the provider until the test ends.
func (w *world) serve(t *testing.T, pick func(*world, asked) replay.Play) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.server, err = replay.New(replay.Config{Pick: func(a replay.Asked) (replay.Play, bool) {
		m := marker.FindSubmatch(a.Body)
		if m == nil || string(m[1]) != replay.API(a.Path) {
			t.Errorf("request to %s with body %.300q", a.Path, a.Body)
			return replay.Play{}, false
		}
		q := asked{dialect: string(m[1]), end: string(m[2]), step: 1}
		q.n, _ = strconv.Atoi(string(m[3]))
		q.turn = fmt.Sprintf("%s-%s-%d", q.dialect, q.end, q.n)
		if answered.Match(a.Body) {
			q.step = 2
		}
		w.mu.Lock()
		counts := w.asked[q.turn]
		counts[q.step-1]++
		w.asked[q.turn] = counts
		w.mu.Unlock()
		q.request = counts[q.step-1]
		return pick(w, q), true
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.server.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// requests is what the provider counted for a turn's steps.
func (w *world) requests(turn string) [2]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[turn]
}
