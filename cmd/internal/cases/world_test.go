package cases

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// folders are where the cases of each dialect lie; those of this package are in OpenAI's.
var folders = map[string]string{"openai-chat": "openaichat", "openai-responses": "openairesponses",
	"anthropic-messages": "anthropic", "gemini": "gemini"}

// done is how each dialect says "Done." when a case's own answers are used up.
var done = map[string]string{
	"openai-chat":      `data: {"choices":[{"index":0,"delta":{"content":"Done."},"finish_reason":"stop"}]}` + "\n\n",
	"openai-responses": `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}` + "\n\n" + `data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Done."}` + "\n\n" + `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Done."}]}}` + "\n\n" + `data: {"type":"response.completed","response":{"id":"r","status":"completed"}}` + "\n\n",
	"anthropic-messages": `data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}}` + "\n\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n",
	"gemini": `data: {"candidates":[{"content":{"parts":[{"text":"Done."}]},"finishReason":"STOP"}]}` + "\r\n\r\n",
}

// play is one case in one dialect.
type play struct {
	row
	dialect string
	answers []replay.Play
}

func (p play) id() string { return "case-" + p.n + "-" + p.dialect }

// plays finds each row's files.
func plays(t *testing.T) (out []play) {
	t.Helper()
	for _, r := range rows {
		found := 0
		for dialect, folder := range folders {
			files, err := filepath.Glob(filepath.Join("..", "..", "..", "streamer", "provider", folder, "testdata", "cases", r.n+"-*"))
			if own, _ := filepath.Glob(filepath.Join("testdata", r.n+"-*")); err == nil && dialect == "openai-chat" {
				files = append(files, own...)
			}
			if err != nil || len(files) > 1 {
				t.Fatalf("case %s: %v %v", r.n, files, err)
			}
			for _, file := range files {
				found++
				out = append(out, play{row: r, dialect: dialect, answers: append(load(t, file), replay.Play{Recording: replay.Body("done", []byte(done[dialect]))})})
			}
		}
		if found == 0 {
			t.Errorf("case %s has no file", r.n)
		}
	}
	return out
}

// load reads a case: a raw body, or a script whose serve lines count here.
func load(t *testing.T, file string) (out []replay.Play) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, ".sse") {
		return []replay.Play{{Recording: replay.Body(file, data)}}
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Serve *struct {
				Body     string
				WriteHex []string `json:"write_hex"`
				Headers  map[string]string
				End      string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Serve == nil {
			continue
		}
		rec := replay.Body(file, []byte(line.Serve.Body))
		for _, h := range line.Serve.WriteHex {
			w, err := hex.DecodeString(h)
			if err != nil {
				t.Fatal(err)
			}
			rec.Response.Body = append(rec.Response.Body, w...)
			rec.Response.Writes = append(rec.Response.Writes, replay.Write{Bytes: len(w)})
		}
		for k, v := range line.Serve.Headers {
			rec.Response.Header.Set(k, v)
		}
		out = append(out, replay.Play{Recording: rec, Fault: replay.Fault{End: replay.End(line.Serve.End)}})
	}
	return out
}

// world is a turnfold, a provider that plays all cases, and the tools.
type world struct {
	p *stage.Product

	mu      sync.Mutex
	offered map[string]string   // by case: t or f for each request
	runs    map[string][]string // by case: "tool arguments"
	keys    map[string]map[string]bool
}

// toolCall is any request to a tool.
func (w *world) toolCall(rw http.ResponseWriter, r *http.Request) {
	args, _ := io.ReadAll(r.Body)
	turn, tool := r.Header.Get("Turnfold-Turn"), strings.TrimPrefix(r.URL.Path, "/")
	w.mu.Lock()
	w.runs[turn] = append(w.runs[turn], tool+" "+string(args))
	if w.keys[turn] == nil {
		w.keys[turn] = map[string]bool{}
	}
	w.keys[turn][r.Header.Get("Idempotency-Key")] = true
	n := len(w.runs[turn])
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	switch {
	case tool == "create_ticket": // case 29: the effect is made, and nobody hears of it
		<-r.Context().Done()
	case tool == "write_file": // case 31
		rw.WriteHeader(http.StatusForbidden)
		class := "permission_denied"
		if n == 3 {
			class = "disk_full"
		}
		fmt.Fprintf(rw, `{"error":{"class":%q,"message":"cannot write"}}`, class)
	case tool == "find_rentals" && bytes.Contains(args, []byte(`"q"`)): // case 26
		io.WriteString(rw, "[]")
	default:
		io.WriteString(rw, `{"done":"F-9"}`)
	}
}

// tools declares what the cases call.
func tools(base string) (out []stage.Tool) {
	for _, t := range []stage.Tool{
		{Name: "refund_rental", Identity: []string{"rental_id"}, Members: map[string]string{"rental_id": "string", "amount_minor": "integer"}},
		{Name: "write_note", Identity: []string{"text"}, Members: map[string]string{"text": "string"}},
		{Name: "write_file", Identity: []string{"path"}, Members: map[string]string{"path": "string", "text": "string"}},
		{Name: "list_bikes", Effect: "read"},
		{Name: "find_rentals", Effect: "read", Members: map[string]string{"customer": "string", "q": "string"}},
		{Name: "find_rental_by_id", Effect: "read", Members: map[string]string{"id": "integer"}},
		{Name: "hold_bike", Identity: []string{"bike"}, Members: map[string]string{"bike": "string", "hours": "integer"}},
		{Name: "send_receipt", Identity: []string{"to"}, Members: map[string]string{"to": "string"}},
		{Name: "create_ticket", Identity: []string{"customer", "rental"}, Members: map[string]string{"customer": "string", "rental": "string", "summary": "string"}, Timeout: time.Second},
	} {
		t.URL = base + "/" + t.Name
		if t.Timeout == 0 {
			t.Timeout = 10 * time.Second
		}
		out = append(out, t)
	}
	return out
}

// newWorld gives each case a provider of its own, whose address names the case.
func newWorld(t *testing.T, all []play) *world {
	t.Helper()
	w := &world{offered: map[string]string{}, runs: map[string][]string{}, keys: map[string]map[string]bool{}}
	toolServer := httptest.NewServer(http.HandlerFunc(w.toolCall))
	base := w.serve(t, all)
	providers, routes := map[string]any{}, map[string]any{}
	for _, p := range all {
		one := map[string]any{"api": p.dialect, "base_url": base + "/" + p.id() + "/v1", "api_key_env": "TURNFOLD_STAGE_KEY", "model": "m"}
		providers[p.id()], routes[p.id()], routes["default"] = one, []string{p.id()}, []string{p.id()}
		if p.n == "05" { // cut by length is asked again of another model only
			big := map[string]any{"model": "m-big"}
			for k, v := range one {
				if k != "model" {
					big[k] = v
				}
			}
			providers[p.id()+"-big"], routes[p.id()] = big, []string{p.id(), p.id() + "-big"}
		}
	}
	binary, err := built.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.p, err = stage.NewProduct(binary, t.TempDir(), "", map[string]any{"providers": providers, "routes": routes, "log": map[string]any{"level": "warn"},
		"retry": map[string]any{"attempts_per_step": 3, "backoff": map[string]any{"base": "5ms", "max": "20ms"}, "budget": map[string]any{"fraction": 1000, "per_second": 1_000_000}}},
		tools(toolServer.URL)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		toolServer.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(w.p.Dir, "turnfold.log"))
			t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-4000):])
		}
	})
	if err := w.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve runs the provider until the test ends.
func (w *world) serve(t *testing.T, all []play) string {
	t.Helper()
	picks := map[string]replay.Pick{}
	for _, p := range all {
		picks[p.id()] = replay.InOrder(p.answers...)
	}
	server, err := replay.New(replay.Config{Pick: func(a replay.Asked) (replay.Play, bool) {
		id, _, _ := strings.Cut(strings.TrimPrefix(a.Path, "/"), "/")
		pick, ok := picks[id]
		if !ok {
			return replay.Play{}, false
		}
		offer := "f"
		if bytes.Contains(a.Body, []byte(`"tools":[`)) && !bytes.Contains(a.Body, []byte(`"tool_choice":"none"`)) {
			offer = "t"
		}
		w.mu.Lock()
		w.offered[id] += offer
		w.mu.Unlock()
		return pick(a)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}
