package audit_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects/jet"
)

// message is a stored message and its stream.
type message struct {
	stream string
	jet.Msg
}

// golden lists the recorded histories. They stay for ever: what was once proven must be
// provable in any later version.
func golden(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/v*.ndjson")
	if err != nil || len(files) < 3 {
		t.Fatalf("recorded histories: %v, %v", files, err)
	}
	return files
}

// load reads a bundle's messages.
func load(t testing.TB, file string) (audit.Head, []message) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := audit.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var out []message
	for {
		stream, m, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Head, out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, message{stream, m})
	}
}

func TestGoldenHistories(t *testing.T) {
	for _, file := range golden(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := audit.Verify(bytes.NewReader(raw), true, func(v audit.Verdict) {
			if !v.OK || len(v.Invariants) != 13 {
				t.Errorf("%s: %+v", file, v)
			}
		})
		if err != nil || !e.Report.OK || e.Report.Turns == 0 || e.Manifest.Turns != e.Report.Turns {
			t.Errorf("%s: %+v, %v", file, e.Report, err)
		}
	}
}

// A history in which a turn was erased verifies: what is left of that turn says that it
// was taken away, and the others are proven as ever.
func TestGoldenErased(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden/erased-v3.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	e, err := audit.Verify(bytes.NewReader(raw), true, func(v audit.Verdict) { status[v.Turn] = v.Status })
	if err != nil || !e.Report.OK || e.Report.Turns != 2 || e.Report.Erased != 1 || status["erased"] != "erased" || status["pictures"] != "completed" {
		t.Errorf("%v, %+v, %v", status, e.Report, err)
	}
}

// What must be refused, and in which words.
func TestBadBundles(t *testing.T) {
	for file, want := range map[string]string{
		"bad-newer-format.ndjson": "newer than this binary", "bad-newer-event.ndjson": "newer than this binary",
		"bad-truncated.ndjson": "cut off", "bad-foreign.ndjson": "foreign", "bad-duplicate.ndjson": "duplicate",
		"bad-deep.ndjson": "depth", "bad-unknown-member.ndjson": "unknown", "bad-tail.ndjson": "follows the manifest",
	} {
		raw, err := os.ReadFile(filepath.Join("testdata/golden", file))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := audit.Verify(bytes.NewReader(raw), false, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", file, err, want)
		}
	}
	// A line without an end is refused before it fills the memory.
	if _, err := audit.Verify(io.LimitReader(endless{}, 1<<30), false, nil); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an endless line: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Every byte of a bundle counts: none can be changed, left out or doubled, and no line
// moved, without the file being refused.
func TestTamperBundle(t *testing.T) {
	raw, err := os.ReadFile(golden(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, at int, data []byte) {
		t.Helper()
		if _, err := audit.Verify(bytes.NewReader(data), true, nil); err == nil {
			t.Fatalf("%s at %d: taken for whole", what, at)
		} else if !strings.Contains(err.Error(), "line") && !errors.Is(err, audit.ErrForeign) {
			t.Fatalf("%s at %d: no line is named: %v", what, at, err)
		}
	}
	for i := 0; i < len(raw); i += 61 * *some {
		flipped := bytes.Clone(raw)
		flipped[i] ^= 1
		refused("flip", i, flipped)
		refused("drop", i, append(bytes.Clone(raw[:i]), raw[i+1:]...))
		refused("add", i, append(append(bytes.Clone(raw[:i]), 'x'), raw[i:]...))
		refused("cut", i, raw[:i])
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := 0; i < len(lines); i += *some {
		without := append(append([][]byte{}, lines[:i]...), lines[i+1:]...)
		refused("drop line", i, bytes.Join(without, nil))
		doubled := append(append([][]byte{}, lines[:i+1]...), lines[i:]...)
		refused("double line", i, bytes.Join(doubled, nil))
		if i > 0 {
			swapped := append([][]byte{}, lines...)
			swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
			refused("swap lines", i, bytes.Join(swapped, nil))
		}
	}
}
