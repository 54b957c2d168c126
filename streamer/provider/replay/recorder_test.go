package replay

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recording starts a recorder before an upstream, and gives what became of requests.
func recording(t *testing.T, upstream string) (base, dir string, done chan Recorded) {
	t.Helper()
	dir, done = filepath.Join(t.TempDir(), "new", "dir"), make(chan Recorded, 16)
	rec, err := NewRecorder(RecorderConfig{Upstream: upstream, Dir: dir, Done: func(r Recorded) { done <- r }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(rec)
	t.Cleanup(s.Close)
	return s.URL, dir, done
}

// TestRecordAndReplay: what a recording plays is what the client of the recorder got,
// end included, and upstream is asked once per request.
func TestRecordAndReplay(t *testing.T) {
	for _, end := range []End{EndEOF, EndClose, EndReset} {
		t.Run(string(end), func(t *testing.T) {
			upstream, addr := start(t, InOrder(Play{Body("x", []byte(stream+"\xff")), Fault{Cut: AfterByte(len(stream) + 1), End: end, Split: SplitEvent}}))
			base, dir, done := recording(t, "http://"+addr+"/v1")
			_, br := dial(t, strings.TrimPrefix(base, "http://"), "POST", "/v1/chat/completions?x=1", `{"a":1}`)
			first := answerOf(t, br)
			if first.body != stream+"\xff" || first.end != end {
				t.Errorf("through the recorder: %+v", first)
			}
			out := <-done
			if out.Err != nil || out.End != end || out.Status != 200 || out.Bytes != len(stream)+1 || len(out.Warnings) > 0 {
				t.Fatalf("%+v", out)
			}
			r, err := Load(out.File)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Request.Body) != `{"a":1}` || r.Request.Path != "/v1/chat/completions?x=1" || len(r.Response.Writes) == 0 {
				t.Errorf("%+v", r)
			}
			_, addr = start(t, Matched(Play{Recording: r}))
			_, br = dial(t, addr, "POST", "/chat/completions", "")
			if again := answerOf(t, br); again.body != first.body || again.end != first.end {
				t.Errorf("replayed: %+v", again)
			}
			if upstream.Requests() != 1 {
				t.Errorf("%d requests upstream", upstream.Requests())
			}
			info, err := os.Stat(out.File)
			if err != nil || info.Mode().Perm() != 0o600 || !strings.HasSuffix(out.File, "-0001-openai-chat.json") {
				t.Errorf("%v %v", info, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestRecordNothingIsHeldBack: upstream writes its next piece only when the client has
// the one before.
func TestRecordNothingIsHeldBack(t *testing.T) {
	got := make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		for range 20 {
			select {
			case <-got:
			case <-time.After(time.Minute):
				t.Error("something was held back")
				return
			}
			_, _ = io.WriteString(w, "x")
			_ = rc.Flush()
		}
	}))
	defer upstream.Close()
	base, _, done := recording(t, upstream.URL)
	res, err := http.Post(base+"/v1/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for range 20 {
		got <- true
		if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	out := <-done
	r, err := Load(out.File)
	if err != nil || len(r.Response.Writes) != 20 {
		t.Errorf("%v %+v", err, r)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestRecordKeepsNoSecret: neither headers nor the address of a file hold a key; bodies
// are not touched, and one that holds a key is warned about.
func TestRecordKeepsNoSecret(t *testing.T) {
	const key = "sk-test-0123456789abcdefghij"
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+key || req.URL.Query().Get("key") != key || req.Header.Get("Accept-Encoding") != "" {
			t.Errorf("upstream got %v %v", req.URL, req.Header)
		}
		w.Header().Set("Set-Cookie", "session=verysecret")
		w.Header().Set("X-Echo", "for "+key)
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "9000")
		_, _ = io.WriteString(w, "data: hi\n\n")
	}))
	defer upstream.Close()
	base, _, done := recording(t, upstream.URL)
	req, err := http.NewRequest("POST", base+"/v1beta/models/m:streamGenerateContent?alt=sse&key="+key, strings.NewReader(`{"note":"`+key+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "x-api-key": "anotherkey1", "X-Goog-Api-Key": "k",
		"Cookie": "a=cookievalue", "Idempotency-Key": "fine"} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(res.Body)
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	out := <-done
	if len(out.Warnings) != 1 || !strings.HasPrefix(out.Warnings[0], "request.body") || strings.Contains(out.Path, key) {
		t.Errorf("%+v", out)
	}
	r, err := Load(out.File)
	if err != nil {
		t.Fatal(err)
	}
	body := string(r.Request.Body)
	r.Request.Body = nil
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{key, "anotherkey1", "cookievalue", "verysecret", `"k"`} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%s is in\n%s", secret, data)
		}
	}
	for _, kept := range []string{"9000", "fine", "alt=sse&key=" + Redacted, "for " + Redacted} {
		if !strings.Contains(string(data), kept) {
			t.Errorf("%s is not in\n%s", kept, data)
		}
	}
	if body != `{"note":"`+key+`"}` {
		t.Errorf("body %s", body)
	}
}

// TestRecordClientGoes: the client's going ends upstream's answer, and what came is kept.
func TestRecordClientGoes(t *testing.T) {
	_, addr := start(t, InOrder(Play{Body("x", []byte(stream)), Fault{Cut: AfterEvent(1), End: EndHang}}))
	base, _, done := recording(t, "http://"+addr)
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", base+"/v1/responses", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 11)); err != nil {
		t.Fatal(err)
	}
	cancel()
	out := <-done
	if r, err := Load(out.File); err != nil || out.End != EndHang || string(r.Response.Body) != "data: one\n\n" {
		t.Errorf("%+v %v %+v", out, err, r)
	}
}

func TestRecordRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []RecorderConfig{{Upstream: "host", Dir: dir}, {Upstream: "ftp://host", Dir: dir}, {Upstream: "http://u:secretword@host", Dir: dir},
		{Upstream: "http://host?key=secretword", Dir: dir}, {Upstream: "http://host"}, {Upstream: "http://host", Dir: file}} {
		if _, err := NewRecorder(cfg); err == nil || strings.Contains(err.Error(), "secretword") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	base, _, done := recording(t, "http://127.0.0.1:1/v1")
	for path, status := range map[string]int{"/v1/messages": 502, "/v12": 404, "/messages": 404} {
		res, err := http.Post(base+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if out := <-done; res.StatusCode != status || out.Err == nil || out.File != "" {
			t.Errorf("%s: %s %+v", path, res.Status, out)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
