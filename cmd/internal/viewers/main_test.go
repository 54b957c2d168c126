package viewers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/subjects/jet"
)

var binary string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &binary)) }

// world is a turnfold whose model says the time, for as long as it is asked to.
type world struct {
	p     *stage.Product
	pace  time.Duration
	more  string      // said after each time
	quiet atomic.Bool // answers end
}

func newWorld(t *testing.T, pace time.Duration, more string) *world {
	t.Helper()
	w := &world{pace: pace, more: more}
	model := stage.NewModel(func(_ int, _ stage.Request, out *stage.Reply) {
		out.Pace = w.pace
		for !w.quiet.Load() {
			out.Text(strconv.FormatInt(time.Now().UnixNano(), 10) + "." + w.more + " ")
		}
		out.Finish()
	})
	p, err := stage.NewProduct(binary, t.TempDir(), model.API(), map[string]any{"log": map[string]any{"level": "warn"}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	t.Cleanup(func() {
		w.quiet.Store(true)
		p.Kill()
		model.Close()
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

// open posts a turn and leaves it.
func (w *world) open(t *testing.T, turn string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.p.Base+"/v1/turns", strings.NewReader(fmt.Sprintf(`{"turn":%q,"input":"Hi"}`, turn)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Prefer", "respond-async")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatal(res.Status)
	}
}

func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.p.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// watch reads a turn's feed on a bare connection, and tells how late each word of the
// model is. It ends with the connection.
func watch(c net.Conn, turn string, late func(time.Duration)) error {
	if _, err := fmt.Fprintf(c, "GET /v1/turns/%s/feed HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n", turn); err != nil {
		return err
	}
	rd := bufio.NewReaderSize(c, 2048)
	for {
		line, err := rd.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
		at := bytes.Index(line, []byte(`"text":"1`))
		if !bytes.HasPrefix(line, []byte("data: ")) || at < 0 {
			continue
		}
		digits := line[at+len(`"text":"`):]
		if end := bytes.IndexByte(digits, '.'); end > 0 {
			if n, err := strconv.ParseInt(string(digits[:end]), 10, 64); err == nil {
				late(time.Since(time.Unix(0, n)))
			}
		}
	}
}

// consumers counts those of every output stream, on the server itself.
func (w *world) consumers(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.p.Dir, "store", "nats", "nats-credentials.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cred struct{ User, Password string }
	if err := json.Unmarshal(data, &cred); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(w.p.Dir, "turnfold.log"))
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`nats://[0-9.:]+`).Find(log) // of the hint how to watch the logs
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: string(url), User: cred.User, Password: cred.Password, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	n := 0
	for p := range 4 {
		m, err := conn.Ask(ctx, fmt.Sprintf("$JS.API.STREAM.INFO.TF_OUT_%d", p), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var info struct {
			State struct {
				Consumers int `json:"consumer_count"`
			} `json:"state"`
		}
		if err := json.Unmarshal(m.Data, &info); err != nil {
			t.Fatal(err)
		}
		n += info.State.Consumers
	}
	return n
}

// busy reports whether others use the processors, so that delays say nothing of ours.
func busy() (load float64, busy bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	if _, err := fmt.Sscan(string(data), &load); err != nil {
		return 0, false
	}
	return load, load > 1.5*float64(runtime.NumCPU())
}

// memory is what the process says of its memory.
func (w *world) memory(t *testing.T) string {
	t.Helper()
	data, err := w.p.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "go_memstats_heap_") || strings.HasPrefix(line, "go_memstats_stack") || strings.HasPrefix(line, "go_goroutines") || strings.HasPrefix(line, "go_memstats_next") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "; ")
}
