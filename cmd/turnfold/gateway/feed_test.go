package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// A turn is streamed live to who posted it, and its feed can be entered at every place.
func TestFeedAndResume(t *testing.T) {
	w := newWorld(t, nil)
	turn := local("resume-1")
	res := w.do("POST", "/v1/turns", `{"turn":"resume-1","input":"Hi"}`)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	first, err := r.ReadString('\n')
	must(t, err)
	if !strings.Contains(first, `"ping"`) || res.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("first byte: %q as %s", first, res.Header.Get("Content-Type"))
	}
	if o := nextItem(t, r); o.Body.Type() != "turn_accepted" {
		t.Fatalf("first item is %s", o.Body.Type())
	}
	at := w.start(turn, 1, 1)
	w.say(turn, &at, "I am ", "sor")
	if o := nextItem(t, r); o.Body.(*feed.TextDelta).Text != "I am " { // live, before the attempt has ended
		t.Fatalf("got %+v", o)
	}
	w.event(turn, &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
	w.attempt(turn, 1, 2, "Sorry ", "about ", "that.")
	var rest strings.Builder
	if _, err := r.WriteTo(&rest); err != nil {
		t.Fatal(err)
	}
	status, _, whole := w.call("GET", "/v1/turns/resume-1/feed", "")
	all := items(t, whole)
	if status != 200 || shown(all) != "Sorry about that." || !strings.HasSuffix(whole, rest.String()) {
		t.Fatalf("replay: %d %q\n%s\nlive rest:\n%s", status, shown(all), whole, rest.String())
	}
	if last := all[len(all)-1].Body.Type(); last != "message_saved" {
		t.Fatalf("the feed ends with %s", last)
	}
	for i, id := range ids(all) {
		for _, how := range []string{"header", "query"} {
			path, header := "/v1/turns/resume-1/feed", []string{"Last-Event-ID", id}
			if how == "query" {
				path, header = path+"?after="+id, nil
			}
			status, _, body := w.call("GET", path, "", header...)
			if i == len(all)-1 {
				if status != http.StatusNoContent || body != "" {
					t.Errorf("after the last: %d %q", status, body)
				}
				continue
			}
			if got := ids(items(t, body)); status != 200 || !slices.Equal(got, ids(all[i+1:])) {
				t.Errorf("after %s by %s: %d %v, want %v", id, how, status, got, ids(all[i+1:]))
			}
		}
	}
	status, _, body := w.call("GET", "/v1/turns/resume-1/feed", "", "Last-Event-ID", "99999.0")
	got := items(t, body)
	reset, ok := got[0].Body.(*feed.Reset)
	if status != 200 || !ok || got[0].Step != 0 || reset.Abandoned != 0 || reset.Reason != "unknown position" ||
		!slices.Equal(ids(got[1:]), ids(all)) {
		t.Errorf("foreign id: %d %s", status, body)
	}
	// A post of the ended turn replays it; another request under its id is a conflict.
	status, _, body = w.call("POST", "/v1/turns", `{"input":"Hi","turn":"resume-1"}`)
	if status != 200 || !slices.Equal(ids(items(t, body)), ids(all)) {
		t.Errorf("posted again: %d %s", status, body)
	}
	status, header, body := w.call("POST", "/v1/turns", `{"input":"Ho","turn":"resume-1"}`)
	checkProblem(t, "another request", status, header, body, "turn", 409)
	checkSSE(t, w, all)
}

func checkSSE(t *testing.T, w *world, all []feed.Output) {
	t.Helper()
	status, header, body := w.call("GET", "/v1/turns/resume-1/feed", "", "Accept", "text/event-stream")
	if status != 200 || header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(body, "retry: ") || !strings.Contains(body, ": ping\n\n") {
		t.Fatalf("SSE: %d %s %.100q", status, header.Get("Content-Type"), body)
	}
	var got []string
	for line := range strings.Lines(body) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			got = append(got, strings.TrimSpace(id))
		}
	}
	if !slices.Equal(got, ids(all)) {
		t.Errorf("SSE ids %v, want %v", got, ids(all))
	}
}

func TestAsync(t *testing.T) {
	w := newWorld(t, nil)
	status, header, body := w.call("POST", "/v1/turns", `{"turn":"auto-async","input":"Hi"}`, "Prefer", "respond-async, wait=5")
	if status != 202 || body != `{"turn":"auto-async"}`+"\n" || header.Get("Location") != "/v1/turns/auto-async" {
		t.Fatalf("%d %v %s", status, header, body)
	}
	_, _, body = w.call("GET", "/v1/turns/auto-async/feed", "")
	if got := shown(items(t, body)); got != "Here is turn auto-async for you. " {
		t.Errorf("shows %q", got)
	}
	status, _, body = w.call("POST", "/v1/turns", `{"input":"Hi"}`, "Prefer", "respond-async")
	if status != 202 || len(body) != len(`{"turn":"0197c5d2-4f0f-7c3e-8a51-1f4f4f4f4f4f"}`)+1 {
		t.Errorf("a turn without a name: %d %s", status, body)
	}
}

// Clients that post one turn at once get one turn and one feed.
func TestPostedAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	bodies := make([]string, 8)
	var wg sync.WaitGroup
	for i := range bodies {
		wg.Go(func() { _, _, bodies[i] = w.call("POST", "/v1/turns", `{"turn":"auto-once","input":"Hi"}`) })
	}
	wg.Wait()
	want := ids(items(t, bodies[0]))
	for i, b := range bodies {
		if got := ids(items(t, b)); !slices.Equal(got, want) || shown(items(t, b)) != "Here is turn auto-once for you. " {
			t.Errorf("client %d got %v, want %v", i, got, want)
		}
	}
	within(t, "the index forgets nothing and keeps nothing", func() bool {
		s, err := w.turns.Load(context.Background(), local("auto-once"), 0)
		return err == nil && s.Done()
	})
}

// Two hundred turns at once, each followed by its own reader.
func TestManyReaders(t *testing.T) {
	w := newWorld(t, nil)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			id := fmt.Sprintf("auto-many-%d", i)
			status, _, body := w.call("POST", "/v1/turns", fmt.Sprintf(`{"turn":%q,"input":"Hi"}`, id))
			list := items(t, body)
			if status != 200 || shown(list) != "Here is turn "+id+" for you. " || list[len(list)-1].Body.Type() != "message_saved" {
				t.Errorf("%s: %d %s", id, status, body)
			}
			if unique := slices.Compact(slices.Sorted(slices.Values(ids(list)))); len(unique) != len(list) {
				t.Errorf("%s: ids repeat", id)
			}
		})
	}
	wg.Wait()
}

// A reader that stops reading neither holds up others, nor costs memory, nor loses an
// item: what it missed is read from the log.
func TestSlowReader(t *testing.T) {
	w := newWorld(t, nil)
	turn := local("slow")
	status, _, _ := w.call("POST", "/v1/turns", `{"turn":"slow","input":"Hi"}`, "Prefer", "respond-async")
	if status != 202 {
		t.Fatal(status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.(*net.TCPConn).SetReadBuffer(32<<10))
	_, err = conn.Write([]byte("GET /v1/turns/slow/feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
	must(t, err)
	rd := bufio.NewReaderSize(conn, 512)
	res, err := http.ReadResponse(rd, nil)
	must(t, err)
	body := bufio.NewReaderSize(res.Body, 512)
	if o := nextItem(t, body); o.Body.Type() != "turn_accepted" {
		t.Fatal(o.Body.Type())
	}
	// More than the reader's place in memory and the sockets' buffers hold together,
	// whatever the machine makes of these: each attempt shows nearly all that a turn may.
	const attempts = 3
	for n := range attempts {
		at := w.start(turn, 1, n+1)
		w.flood(turn, &at, 46)
		if n+1 < attempts {
			w.event(turn, &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
		} else {
			w.event(turn, &event.AttemptFinished{At: at, Finish: "stop"})
		}
	}
	_, _, whole := w.call("GET", "/v1/turns/slow/feed", "") // a fast reader is not held up
	want := items(t, whole)
	within(t, "the slow reader is left to the log", func() bool { return counter(t, w, "turnfold_feed_rereads_total") >= 1 })
	for i := 1; i < len(want); i++ {
		if o := nextItem(t, body); o.ID != want[i].ID {
			t.Fatalf("item %d is %s, want %s", i, o.ID, want[i].ID)
		}
	}
}

// flood says so many pieces of 16 KiB.
func (w *world) flood(t subjects.Turn, at *event.At, pieces int) {
	piece := strings.Repeat("0123456789abcdef", 1024)
	p := t.Partition(testPartitions)
	writer := w.conn.NewOrderedWriter(subjects.EventsStream(p))
	for range pieces {
		data, err := event.Encode(&event.TextDelta{At: *at, Text: piece})
		must(w.t, err)
		must(w.t, writer.Append(context.Background(), subjects.Events(p, t), data))
		at.Ord++
	}
	must(w.t, writer.Close(context.Background()))
}

// A silent feed pings, and ends with the gateway.
func TestPing(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PingEvery = 20 * time.Millisecond })
	res := w.do("POST", "/v1/turns", `{"turn":"quiet","input":"Hi"}`)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for pings := 0; pings < 3; {
		line, err := r.ReadBytes('\n')
		must(t, err)
		if bytes.Contains(line, []byte(`"ping"`)) {
			pings++
		}
	}
}

func counter(t *testing.T, w *world, name string) float64 {
	t.Helper()
	families, err := w.g.cfg.Registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

// A reader whose partition is followed anew loses no item and gets none twice.
func TestFollowedAnew(t *testing.T) {
	w := newWorld(t, nil)
	turn := local("anew")
	res := w.do("POST", "/v1/turns", `{"turn":"anew","input":"Hi"}`)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	got := []feed.Output{nextItem(t, r)}
	at := w.start(turn, 1, 1)
	for i := range 20 {
		w.say(turn, &at, fmt.Sprintf("%d ", i))
		w.g.hub.parts[turn.Partition(testPartitions)].restart()
	}
	w.event(turn, &event.AttemptFinished{At: at, Finish: "stop"})
	for got[len(got)-1].Body.Type() != "message_saved" {
		got = append(got, nextItem(t, r))
	}
	_, _, body := w.call("GET", "/v1/turns/anew/feed", "")
	if want := ids(items(t, body)); !slices.Equal(ids(got), want) {
		t.Errorf("got %v, want %v", ids(got), want)
	}
}

// Of a crowd that comes at once, so many read the log at a time; the others have their
// answer begun, and wait, and all are served.
func TestReadsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	turn := "auto-crowd"
	w.call("POST", "/v1/turns", `{"turn":"`+turn+`","input":"Hi"}`)
	_, _, whole := w.call("GET", "/v1/turns/"+turn+"/feed", "")
	for range readsMax {
		w.g.reads <- struct{}{}
	}
	const crowd = 3 * readsMax
	got := make(chan string, crowd)
	for range crowd {
		go func() {
			_, _, body := w.call("GET", "/v1/turns/"+turn+"/feed", "")
			got <- body
		}()
	}
	select {
	case body := <-got:
		t.Fatalf("served beside %d reads: %s", readsMax, body)
	case <-time.After(200 * time.Millisecond):
	}
	<-w.g.reads // one place for all of them
	for range crowd {
		if body := <-got; body != whole {
			t.Fatalf("got %s\nwant %s", body, whole)
		}
	}
}
