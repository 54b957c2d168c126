package replay

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	r := &Recording{Request: Request{Method: "POST", Path: "/v1/messages", Header: http.Header{"A": {"b", "c"}}, Body: []byte("{\"x\":\"\u00e9\"}")},
		Response: Response{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: []byte("data: \xff\xfe\r\n\r\n"),
			Writes: []Write{{time.Millisecond, 3}, {2 * time.Millisecond, 9}}, End: EndReset}}
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	same, err := again.Encode()
	if err != nil || !bytes.Equal(same, data) || !bytes.Equal(again.Response.Body, r.Response.Body) || !strings.Contains(string(data), "body_base64") {
		t.Errorf("%v\n%s\n%s", err, data, same)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	for content, says := range map[string]string{
		``:                                   "(the file)",
		`{}`:                                 "v: is 0",
		`{"v":2,"response":{}}`:              "v: is 2; this turnfold reads 1",
		`{"v":1}`:                            "response: is missing",
		`{"v":"1"}`:                          "v: cannot be a string",
		`{"v":1,"respons":{}}`:               "respons: is unknown",
		`{"v":1,"v":1}`:                      "v",
		`{"v":1,"response":{"status":99}}`:   "response.status: is 99",
		`{"v":1,"response":{"status":200}}`:  `response.end: is ""`,
		`{"v":1,"response":{"end":"never"}}`: `response.end: is "never"`,
		`{"v":1,"response":{"status":200,"end":"eof","body":"a","body_base64":"YQ=="}}`:                                          "only one of them",
		`{"v":1,"response":{"status":200,"end":"eof","body_base64":"*"}}`:                                                        "response.body_base64: illegal",
		`{"v":1,"response":{"status":200,"end":"before","body":"x"}}`:                                                            "there can be no body",
		`{"v":1,"response":{"status":200,"end":"eof","body":"ab","writes":[{"after_us":0,"bytes":1}]}}`:                          "add up to 1 bytes; the body has 2",
		`{"v":1,"response":{"status":200,"end":"eof","body":"ab","writes":[{"after_us":0,"bytes":-1}]}}`:                         "response.writes[0].bytes",
		`{"v":1,"response":{"status":200,"end":"eof","body":"ab","writes":[{"after_us":9,"bytes":1},{"after_us":8,"bytes":1}]}}`: "response.writes[1].after_us",
		`{"v":1,"response":{"status":200,"end":"eof","headers":{"X":["a\r\nB: c"]}}}`:                                            "response.headers.X",
		`{"v":1,"response":{"status":200,"end":"eof","headers":{"content-length":["3"]}}}`:                                       "content-length: frames the body",
		`{"v":1,"response":{"status":200,"end":"eof","writes":[{"at":1}]}}`:                                                      "response.writes.0.at: is unknown",
		`{"v":1,"request":{"method":"","path":"x"},"response":{"status":200,"end":"eof"}}`:                                       "request.path",
		`{"v":1,"response":{"status":200,"end":"eof"}} {}`:                                                                       "(the file)",
	} {
		path := filepath.Join(dir, "bad.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", content, err, says)
		}
	}
	raw := filepath.Join(dir, "body.sse")
	if err := os.WriteFile(raw, []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(raw); err != nil || string(r.Response.Body) != stream || r.Response.Status != 200 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := Load(filepath.Join(dir, "none.sse")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestFaultValidate(t *testing.T) {
	bad := Fault{Cut: AfterByte(-1), End: "later", Split: "word", Status: 1, BytesPerSecond: -1}
	err := bad.Validate()
	for _, part := range []string{"cut", "later", "word", "status", "rate"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name the %s", err, part)
		}
	}
	if err := (Fault{Cut: AfterEvent(2), End: EndHang, Split: SplitByte}).Validate(); err != nil {
		t.Error(err)
	}
}
