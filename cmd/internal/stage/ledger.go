package stage

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Ledger is a tool that performs one effect per idempotency key, as a payment provider
// does, and counts what reached it and what it did.
type Ledger struct {
	*server
	mu    sync.Mutex
	texts []string // argument texts in order of arrival
	order []string // keys in order of first appearance
	done  map[string]bool
	byKey map[string][]string // argument texts of the requests under each key
	after func()              // once, after an effect and before its answer
	delay time.Duration
	reply string
	say   func(args string) string // in place of reply, if set
}

// NewLedger answers every request with reply, after delay.
func NewLedger(reply string, delay time.Duration) *Ledger {
	l := &Ledger{done: map[string]bool{}, byKey: map[string][]string{}, delay: delay, reply: reply}
	l.server = serve(l.handle)
	return l
}

func (l *Ledger) handle(w http.ResponseWriter, r *http.Request) {
	args, err := io.ReadAll(r.Body)
	if err != nil {
		return // half a request asks for nothing
	}
	key := r.Header.Get("Idempotency-Key")
	l.mu.Lock()
	l.texts = append(l.texts, string(args))
	if key == "" { // nothing to tell two requests apart: each is an effect
		key = fmt.Sprintf("(none %d)", len(l.texts))
	}
	l.byKey[key] = append(l.byKey[key], string(args))
	if !l.done[key] {
		l.done[key] = true
		l.order = append(l.order, key)
	}
	after, say := l.after, l.say
	l.after = nil
	l.mu.Unlock()
	if after != nil {
		after()
	}
	time.Sleep(l.delay)
	w.Header().Set("content-type", "application/json")
	if say != nil {
		fmt.Fprintln(w, say(string(args)))
		return
	}
	fmt.Fprintln(w, l.reply)
}

// Sent lists the argument texts of all requests, in order of arrival.
func (l *Ledger) Sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.texts...)
}

// Under lists the argument texts of the requests under a key, in order of arrival.
func (l *Ledger) Under(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.byKey[key]...)
}

// Keys lists the idempotency keys of the effects made, in order.
func (l *Ledger) Keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.order...)
}

// AfterEffect runs f once, when an effect is made and its answer is still to come.
func (l *Ledger) AfterEffect(f func()) {
	l.mu.Lock()
	l.after = f
	l.mu.Unlock()
}

// Answer has say make the answer to each request, of its argument text.
func (l *Ledger) Answer(say func(args string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say = say
}

// Effects counts the effects made.
func (l *Ledger) Effects() int { return len(l.Keys()) }

// server is an HTTP server on a loopback port of its own.
type server struct {
	listener net.Listener
	http     *http.Server
}

func serve(h http.HandlerFunc) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("stage: no loopback port: %v", err)) // nothing works on such a host
	}
	s := &server{l, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s
}

// URL is where it listens.
func (s *server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends it and breaks every connection.
func (s *server) Close() { _ = s.http.Close() }
