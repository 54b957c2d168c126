package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/turnfold/turnfold/reducer/audit"
)

// verdicts reads what audit --json writes, by turn. A turn may come twice if an audit
// was resumed, but not to another end.
func verdicts(t *testing.T, into map[string]bool, r io.Reader) {
	t.Helper()
	lines := json.NewDecoder(r)
	for {
		var v audit.Verdict
		if err := lines.Decode(&v); err != nil { // the end, or a line that was cut off
			return
		}
		if before, twice := into[v.Turn]; twice && before != v.OK {
			t.Errorf("%s: %v, and before %v", v.Turn, v.OK, before)
		}
		into[v.Turn] = v.OK
	}
}

// interrupted starts an audit, waits for its first verdict while nobody reads on, so
// that it has not come to its end, and sends it a signal.
func interrupted(t *testing.T, dir string, sig syscall.Signal, args ...string) (seen map[string]bool, stderr string, state error) {
	t.Helper()
	cmd := product(t, dir, append([]string{"audit", "--json"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(out, 1<<10) // less than the pipe holds, which is less than all verdicts
	if _, err := r.Peek(1); err != nil {
		t.Fatalf("no verdict: %v\n%s", err, &errs)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	seen = map[string]bool{}
	verdicts(t, seen, r)
	err = cmd.Wait()
	return seen, errs.String(), err
}

// TestAuditGoesOn interrupts audits of a whole log. What an interrupt leaves to do is
// done from where it says, and both parts together come to what one audit comes to; a
// kill leaves nothing behind that keeps the next audit from all of it. The history is
// that of bench audit, which is held to its promises on the way.
func TestAuditGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "history")
	code, out, errs := invoke(t, t.TempDir(), "bench", "audit", "--events", "16000", "--dir", dir, "--json")
	var r struct {
		Events, Turns, Mismatches uint64
		Plain                     float64 `json:"plain_all_events_per_s"`
		Audit                     float64 `json:"audit_events_per_s"`
		Peak                      int64   `json:"peak_resident_bytes"`
	}
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if r.Turns != 400 || r.Events < 400*40 || r.Mismatches != 0 || r.Plain <= 0 || r.Audit <= 0 || r.Peak <= 0 {
		t.Errorf("bench audit: %s", out)
	}
	if limit := int64(512 << 20); !raceEnabled && r.Peak > limit {
		t.Errorf("an audit holds %d bytes; %d are allowed", r.Peak, limit)
	}
	if code, _, errs := invoke(t, t.TempDir(), "bench", "audit", "--dir", dir); code != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("over another history: exit %d, %s", code, errs)
	}

	whole := map[string]bool{}
	code, out, errs = invoke(t, dir, "audit", "--all", "--settled", "--json")
	if verdicts(t, whole, strings.NewReader(out)); code != 0 || len(whole) != int(r.Turns) {
		t.Fatalf("in one go: exit %d, %d turns: %s", code, len(whole), errs)
	}
	killed, _, err := interrupted(t, dir, syscall.SIGKILL, "--all")
	if err == nil || len(killed) >= len(whole) {
		t.Errorf("a killed audit ends with %v after %d turns", err, len(killed))
	}
	seen, said, err := interrupted(t, dir, syscall.SIGINT, "--all")
	from := regexp.MustCompile(`--from (\S+)`).FindStringSubmatch(said)
	if err == nil || len(seen) == 0 || len(seen) >= len(whole) || from == nil {
		t.Fatalf("an interrupted audit ends with %v after %d turns: %s", err, len(seen), said)
	}
	first := len(seen)
	code, out, errs = invoke(t, dir, "audit", "--settled", "--json", "--from", from[1])
	rest := map[string]bool{}
	verdicts(t, rest, strings.NewReader(out))
	verdicts(t, seen, strings.NewReader(out))
	if code != 0 || len(rest) >= len(whole) || !maps.Equal(seen, whole) {
		t.Errorf("exit %d: %d turns at first, %d afterwards, %d together; in one go %d\n%s", code, first, len(rest), len(seen), len(whole), errs)
	}
}
