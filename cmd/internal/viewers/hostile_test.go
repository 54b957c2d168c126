package viewers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	// growthMax bounds what a process may grow by under all that the test does to it.
	growthMax = 500 << 20
	// connects are opened and left alone.
	connects = 10_000
	// giveUp is how long a connection may take to say what it wants, and some more.
	giveUp = 15 * time.Second
)

// Readers that do not read, or a byte a second, heads without an end, and ten thousand
// connections that say nothing: others get their words, and memory has a bound.
func TestHostile(t *testing.T) {
	w := newWorld(t, 20*time.Millisecond, strings.Repeat("x", 4<<10))
	w.open(t, "live-0")
	var seen lateness
	good := w.dial(t)
	defer good.Close()
	go watch(good, "live-0", seen.add)
	time.Sleep(time.Second)
	calm, _, _ := seen.take()
	before, err := w.p.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 { // they ask, and then read nothing, or next to it
		c := w.dial(t)
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /v1/turns/live-0/feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			go trickle(c)
		}
	}
	hugeHead(t, w)
	began := time.Now()
	idle := make([]net.Conn, 0, connects)
	for range connects {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(w.p.Base, "http://"), 5*time.Second)
		if err != nil {
			t.Logf("%d connections: %v", len(idle), err)
			break
		}
		defer c.Close()
		idle = append(idle, c)
	}
	seen.take()
	time.Sleep(5 * time.Second)
	n, p50, p99 := seen.take()
	during, err := w.p.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d idle connections after %s; %d words in 5s (before: %d in 1s), p50 %s, p99 %s; memory grew by %d MiB",
		len(idle), time.Since(began).Round(time.Second), n, calm, p50, p99, (during-before)>>20)
	if n < 20 {
		t.Errorf("the good reader got %d words in 5s", n)
	}
	if during-before > growthMax {
		t.Errorf("memory grew by %d bytes, more than %d", during-before, growthMax)
	}
	if res, err := http.Get(w.p.Base + "/readyz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("not ready: %v %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	for _, c := range idle[:min(len(idle), 10)] { // those that say nothing are closed
		_ = c.SetReadDeadline(began.Add(giveUp + 20*time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a connection that says nothing is still open: %v", err)
		}
	}
}

// trickle reads a byte a second.
func trickle(c net.Conn) {
	one := make([]byte, 1)
	for {
		if _, err := c.Read(one); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// hugeHead sends a head without an end: it is refused long before memory notices.
func hugeHead(t *testing.T, w *world) {
	t.Helper()
	c := w.dial(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		_, _ = io.WriteString(c, "GET /v1/turns HTTP/1.1\r\nHost: 127.0.0.1\r\n")
		for range 64 {
			if _, err := io.WriteString(c, "X-Filler: "+strings.Repeat("a", 8<<10)+"\r\n"); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of 512 KiB is answered with %s", res.Status)
	}
}
