package replay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const stream = "data: one\n\n: ping\n\ndata: two\r\n\r\nid: 3\ndata: thr\u00e9e\n\ndata: open"

func TestEventEnds(t *testing.T) {
	for body, want := range map[string][]int{
		"":                          nil,
		"data: a":                   nil,
		"data: a\n":                 nil,
		"data: a\n\n":               {9},
		"data: a\r\n\r":             {10},
		"data: a\r\n\r\n":           {11},
		"data: a\r\rdata\n\n":       {9, 15},
		": ping\n\ndata:b\n\n":      {16},
		"\n\n\ndata: a\n\nevent: x": {12},
		"database: no\n\n":          nil,
	} {
		if got := EventEnds([]byte(body)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	}
}

// TestCuts cuts a body after every byte and event, in every split and with every end:
// what comes is the prefix, and the end is the one that was asked for.
func TestCuts(t *testing.T) {
	r := Body("x.sse", []byte(stream))
	ends := EventEnds(r.Response.Body)
	type cut struct {
		cut  Cut
		keep int
	}
	cuts := []cut{{Cut{}, len(stream)}, {AfterByte(1 << 30), len(stream)}, {AfterEvent(99), len(stream)}, {AfterEvent(0), 0}}
	for n := range len(stream) + 1 {
		cuts = append(cuts, cut{AfterByte(n), n})
	}
	for n, end := range ends {
		cuts = append(cuts, cut{AfterEvent(n + 1), end})
	}
	fault := Fault{}
	_, addr := start(t, func(Asked) (Play, bool) { return Play{r, fault}, true })
	for _, split := range []Split{SplitRecorded, SplitByte, SplitEvent, SplitWhole} {
		for _, end := range []End{EndEOF, EndClose, EndReset} {
			for _, c := range cuts {
				fault = Fault{Cut: c.cut, End: end, Split: split}
				conn, br := dial(t, addr, "POST", "/v1/x", "{}")
				g := answerOf(t, br)
				if g.body != stream[:c.keep] || g.end != end || g.status != 200 || g.header.Get("Content-Type") != "text/event-stream" {
					t.Fatalf("%+v: %+v", fault, g)
				}
				conn.Close()
			}
		}
	}
}

// TestDefaultEnds: a cut is a reset unless another end is asked for, and the whole body
// ends as it was recorded.
func TestDefaultEnds(t *testing.T) {
	r := Body("x", []byte(stream))
	r.Response.End = EndClose
	for want, f := range map[End]Fault{EndClose: {}, EndReset: {Cut: AfterByte(3)}, EndEOF: {Cut: AfterByte(3), End: EndEOF}} {
		_, addr := start(t, InOrder(Play{r, f}))
		_, br := dial(t, addr, "POST", "/", "")
		if g := answerOf(t, br); g.end != want {
			t.Errorf("%+v ends with %s, want %s", f, g.end, want)
		}
	}
}

func TestBeforeHangStatus(t *testing.T) {
	r := Body("x", []byte(stream))
	s, addr := start(t, InOrder(Play{r, Fault{End: EndBefore}}, Play{r, Fault{End: EndHang, Cut: AfterByte(4)}}, Play{r, Fault{Status: 529}}))
	_, br := dial(t, addr, "POST", "/", "")
	if g := answerOf(t, br); g.end != EndReset || g.status != 0 {
		t.Errorf("before the head: %+v", g)
	}
	c, br := dial(t, addr, "POST", "/", "")
	_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if g := answerOf(t, br); g.body != stream[:4] || g.end != EndHang {
		t.Errorf("hang: %+v", g)
	}
	c.Close()
	_, br = dial(t, addr, "POST", "/", "")
	if g := answerOf(t, br); g.status != 529 || g.body != stream {
		t.Errorf("status: %+v", g)
	}
	if s.Requests() != 3 {
		t.Errorf("%d requests", s.Requests())
	}
}

// TestWrites: each write is a chunk of its own, and has its wait.
func TestWrites(t *testing.T) {
	r := Body("x", []byte("data: a\n\ndata: b\n\n"))
	r.Response.Writes = []Write{{After: 20 * time.Millisecond, Bytes: 5}, {After: 50 * time.Millisecond, Bytes: 13}}
	for _, c := range []struct {
		fault  Fault
		chunks string
		least  time.Duration
	}{
		{Fault{}, "5 d", 0},
		{Fault{Timed: true}, "5 d", 50 * time.Millisecond},
		{Fault{Split: SplitByte}, strings.TrimSuffix(strings.Repeat("1 ", 18), " "), 0},
		{Fault{Split: SplitEvent, Delay: 20 * time.Millisecond}, "9 9", 40 * time.Millisecond},
		{Fault{Split: SplitWhole, BytesPerSecond: 300}, "12", 60 * time.Millisecond},
	} {
		_, addr := start(t, InOrder(Play{r, c.fault}))
		began := time.Now()
		_, br := dial(t, addr, "POST", "/", "")
		var chunks []string
		for head := true; ; {
			line, err := br.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimRight(line, "\r\n"); head {
				head = line != ""
				continue
			}
			if line == "0" {
				break
			}
			var size int
			fmt.Sscanf(line, "%x", &size)
			chunks = append(chunks, line)
			if _, err := io.CopyN(io.Discard, br, int64(size)+2); err != nil {
				t.Fatal(err)
			}
		}
		if got, took := strings.Join(chunks, " "), time.Since(began); got != c.chunks || took < c.least {
			t.Errorf("%+v: chunks %s after %s", c.fault, got, took)
		}
	}
}

// TestConnections: a connection serves many requests, and the journal tells them apart.
func TestConnections(t *testing.T) {
	s, addr := start(t, InOrder(Play{Recording: Body("first", []byte("data: 1\n\n"))}, Play{Recording: Body("second", []byte("data: 2\n\n"))}))
	c, br := dial(t, addr, "POST", "/a?b=1", "hello")
	for n := range 3 {
		if n > 0 {
			ask(t, c, "POST", "/a", "")
		}
		if g := answerOf(t, br); g.body != fmt.Sprintf("data: %d\n\n", min(n+1, 2)) {
			t.Errorf("%d: %+v", n, g)
		}
	}
	_, br = dial(t, addr, "HEAD", "/", "")
	if res, err := http.ReadResponse(br, &http.Request{Method: "HEAD"}); err != nil || res.StatusCode != 200 {
		t.Errorf("HEAD: %v %v", res, err)
	}
	var lines []string
	for _, e := range journalOf(t, s, 4) {
		lines = append(lines, fmt.Sprint(e.N, e.Conn, e.OnConn, e.Method, e.Path, e.Recording, e.Bytes, e.End))
	}
	want := "1 1 1 POST /a?b=1 first 9 eof;2 1 2 POST /a second 9 eof;3 1 3 POST /a second 9 eof;4 2 1 HEAD / second 0 eof"
	if got := strings.Join(lines, ";"); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("journal:\n%s\nwant\n%s", got, want)
	}
}

// journalOf waits for n entries, since a client has its answer before the server has
// written the entry, and lists them in the order of their requests.
func journalOf(t *testing.T, s *Server, n int) []Entry {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		j := s.Journal()
		switch {
		case len(j) == n:
			slices.SortFunc(j, func(a, b Entry) int { return a.N - b.N })
			return j
		case len(j) > n || time.Now().After(until):
			t.Fatalf("%d entries in the journal, want %d: %+v", len(j), n, j)
		}
	}
}

func TestExpectContinueAndBadRequest(t *testing.T) {
	_, addr := start(t, InOrder(Play{Recording: Body("x", []byte("data: 1\n\n"))}))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	br := bufio.NewReader(c)
	if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = br.ReadString('\n')
	fmt.Fprint(c, "{}")
	if g := answerOf(t, br); g.body != "data: 1\n\n" {
		t.Errorf("%+v", g)
	}
	bad, br := dial(t, addr, "no such", "request", "")
	if g := answerOf(t, br); g.status != 400 {
		t.Errorf("%+v", g)
	}
	bad.Close()
}

func TestMatched(t *testing.T) {
	of := func(name, path string) Play {
		r := Body(name, []byte("data: x\n\n"))
		if path != "" {
			r.Request = Request{Method: "POST", Path: path}
		}
		return Play{Recording: r}
	}
	pick := Matched(of("chat1", "/v1/chat/completions"), of("msg1", "/v1/messages?beta=true"), of("chat2", "/openai/chat/completions"),
		of("gem", "/v1beta/models/m:streamGenerateContent?alt=sse"), of("page", "/health"))
	for _, c := range [][2]string{{"/x/chat/completions", "chat1"}, {"/v1/messages", "msg1"}, {"/v1/chat/completions", "chat2"},
		{"/v1/chat/completions", "chat2"}, {"/v1/messages", "msg1"}, {"/v1/models/other:streamGenerateContent?alt=sse", "gem"},
		{"/health", "page"}, {"/v1/responses", ""}} {
		p, ok := pick(Asked{Path: c[0]})
		if ok != (c[1] != "") || ok && p.Recording.Name != c[1] {
			t.Errorf("%s: %v %+v, want %s", c[0], ok, p.Recording, c[1])
		}
	}
	any := Matched(of("bare", ""))
	if p, ok := any(Asked{Path: "/whatever"}); !ok || p.Recording.Name != "bare" {
		t.Error("a bare body answers any request")
	}
	if _, addr := start(t, pick); addr != "" {
		_, br := dial(t, addr, "POST", "/v1/responses", "")
		if g := answerOf(t, br); g.status != 404 || !strings.Contains(g.body, "No recording") {
			t.Errorf("%+v", g)
		}
	}
}
