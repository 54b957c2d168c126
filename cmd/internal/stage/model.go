// Package stage is the world around a turnfold: scripted model providers, tools that
// count what is done to them, and turnfold itself as a process that can be killed. The
// demo and the crash tests play on it.
//
// Invariant: everything here is real: HTTP over sockets, TCP resets, processes and
// signals. What it counts is what happened, whatever turnfold says of itself.
package stage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tokens is what a model generated for one request.
type Tokens struct {
	Request int    `json:"request"`
	Output  int    `json:"output_tokens"`
	End     string `json:"end"` // finished, reset
}

// Request is what scripted models look at.
type Request struct {
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice any               `json:"tool_choice"`
}

// Answered reports whether the conversation has a tool result.
func (r Request) Answered() bool {
	for _, m := range r.Messages {
		if m.Role == "tool" {
			return true
		}
	}
	return false
}

// Said is the text of the latest message of the user.
func (r Request) Said() string {
	for _, m := range slices.Backward(r.Messages) {
		if text, ok := m.Content.(string); ok && m.Role == "user" {
			return text
		}
	}
	return ""
}

// OffersTools reports whether the model could call a tool.
func (r Request) OffersTools() bool { return len(r.Tools) > 0 && r.ToolChoice != "none" }

// Model is a provider that streams scripted replies over real HTTP.
type Model struct {
	*server
	mu       sync.Mutex
	n        int
	spent    []Tokens
	assigned map[string]string // id of each call, by its argument text
	bodies   []string          // of the requests, in order of arrival
}

// NewModel serves script: for each request, numbered from 1, it writes the reply.
func NewModel(script func(n int, r Request, w *Reply)) *Model {
	m := &Model{assigned: map[string]string{}}
	m.server = serve(func(w http.ResponseWriter, req *http.Request) {
		var r Request
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = json.Unmarshal(body, &r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.mu.Lock()
		m.n++
		n := m.n
		m.bodies = append(m.bodies, string(body))
		m.mu.Unlock()
		w.Header().Set("content-type", "text/event-stream")
		out := &Reply{w: w, n: n, assign: m.assign}
		script(n, r, out)
		m.mu.Lock()
		m.spent = append(m.spent, Tokens{Request: n, Output: out.tokens, End: out.end})
		m.mu.Unlock()
		if out.end == "reset" {
			reset(w)
		}
	})
	return m
}

// API is the base URL of the model's chat completions.
func (m *Model) API() string { return m.URL() + "/v1" }

func (m *Model) assign(id, args string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned[args] = id
}

// IDs names the calls whose argument texts reached a tool.
func (m *Model) IDs(texts []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, t := range texts {
		out = append(out, m.assigned[t])
	}
	return out
}

// Tokens lists what was generated, a request an entry.
func (m *Model) Tokens() []Tokens {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Tokens(nil), m.spent...)
}

// reset ends the connection as a crash does: the peer sees a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Reply writes one streamed reply.
type Reply struct {
	w      http.ResponseWriter
	n      int
	tokens int // words and calls: what this model bills as output
	calls  int
	end    string
	assign func(id, args string)
	// Pace is the wait after each chunk. Zero means 4 ms.
	Pace time.Duration
}

func (r *Reply) chunk(delta map[string]any, finish any, usage any) {
	c := map[string]any{"id": fmt.Sprintf("cmpl-%d", r.n), "object": "chat.completion.chunk", "model": "demo",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
	if usage != nil {
		c["usage"] = usage
	}
	data, _ := json.Marshal(c)
	fmt.Fprintf(r.w, "data: %s\n\n", data)
	_ = http.NewResponseController(r.w).Flush()
	time.Sleep(cmp.Or(r.Pace, 4*time.Millisecond))
}

// Text streams text, a word a chunk.
func (r *Reply) Text(s string) {
	for _, word := range strings.SplitAfter(s, " ") {
		if word != "" {
			r.tokens++
			r.chunk(map[string]any{"content": word}, nil, nil)
		}
	}
}

// Call streams a tool call in two chunks.
func (r *Reply) Call(id, name, args string) {
	r.assign(id, args)
	r.tokens += len(args) / 4
	half := len(args) / 2
	r.chunk(map[string]any{"tool_calls": []any{map[string]any{"index": r.calls, "id": id, "type": "function",
		"function": map[string]any{"name": name, "arguments": args[:half]}}}}, nil, nil)
	r.chunk(map[string]any{"tool_calls": []any{map[string]any{"index": r.calls,
		"function": map[string]any{"arguments": args[half:]}}}}, nil, nil)
	r.calls++
}

// Finish ends the reply as a whole one, with its usage.
func (r *Reply) Finish() {
	reason := "stop"
	if r.calls > 0 {
		reason = "tool_calls"
	}
	r.end = "finished"
	r.chunk(map[string]any{}, reason, map[string]any{"prompt_tokens": 40, "completion_tokens": r.tokens})
	fmt.Fprint(r.w, "data: [DONE]\n\n")
}

// Break lets what was written arrive, and then breaks the connection.
func (r *Reply) Break() {
	time.Sleep(60 * time.Millisecond)
	r.end = "reset"
}

// Bodies lists what the requests said, in order of arrival.
func (m *Model) Bodies() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.bodies...)
}

// Requests counts the requests that came.
func (m *Model) Requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}
