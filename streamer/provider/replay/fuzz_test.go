package replay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzLoad: whatever a file holds, loading it fails with a word or gives a recording
// that can be played and that its own text gives again.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"request":{"method":"POST","path":"/v1/x?a=b","headers":{"A":["b"]},"body":"q"},"response":{"status":200,"headers":{"Content-Type":["text/event-stream"]},"body":"data: a\n\n","writes":[{"after_us":5,"bytes":3},{"after_us":9,"bytes":6}],"end":"eof"}}`,
		`{"v":1,"response":{"status":200,"body_base64":"/w==","end":"reset"}}`, `{"v":1,"response":{"status":200,"end":"before"}}`,
		`{"v":2,"response":{}}`, `{"v":1}`, `{"v":1,"response":{"status":200,"body":"a","body_base64":"","end":"eof"}}`, `{"v":1,"x":1}`, "data: a\n\n", "",
		`{"v":1,"response":{"status":200,"body":"ab","writes":[{"after_us":0,"bytes":9223372036854775807},{"after_us":0,"bytes":9223372036854775807}],"end":"eof"}}`,
		`{"v":1,"response":{"status":200,"body":"a","writes":[{"after_us":9223372036854775807,"bytes":1}],"end":"eof"}}`,
		`{"v":1,"response":{"status":200,"body":"a","writes":[{"after_us":18446744073709552,"bytes":1}],"end":"eof"}}`,
	} {
		f.Add([]byte(s), 0, true)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, n int, asJSON bool) {
		path := filepath.Join(dir, "a.sse")
		if asJSON {
			path = filepath.Join(dir, "a.json")
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Load(path)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("loaded, but cannot be written: %v", err)
		}
		same, err := Decode(again)
		if err != nil {
			t.Fatalf("written as %s, which cannot be read: %v", again, err)
		}
		if same.Name = r.Name; string(same.Response.Body) != string(r.Response.Body) || same.Response.End != r.Response.End ||
			!slices.Equal(same.Response.Writes, r.Response.Writes) || string(same.Request.Body) != string(r.Request.Body) {
			t.Fatalf("%+v, again %+v", r, same)
		}
		for _, fault := range []Fault{{}, {Cut: AfterByte(max(n, 0))}, {Cut: AfterEvent(max(n, 0)), Split: SplitEvent}, {Split: SplitByte, Timed: true}, {Timed: true}} {
			played := 0
			for _, p := range play(r, fault).pieces {
				if played += len(p.data); len(p.data) == 0 || p.wait < 0 {
					t.Fatalf("%+v plays %+v", fault, p)
				}
			}
			if played > len(r.Response.Body) || fault.Cut == (Cut{}) && r.Response.End != EndBefore && played != len(r.Response.Body) {
				t.Fatalf("%+v plays %d bytes of %d", fault, played, len(r.Response.Body))
			}
		}
	})
}
