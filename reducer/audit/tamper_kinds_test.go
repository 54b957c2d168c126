package audit_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
)

// kinds is a history with a turn of every kind and end, as TestEveryKindAuditsClean of
// cmd/turnfold leaves it.
const kinds = "testdata/golden/v2-kinds.ndjson"

var keyIn = regexp.MustCompile(`"key":"(tfk1_\w+)"`)

// excerpts are the turns of a history, each with the facts of its keys.
func excerpts(t *testing.T, list []message) map[string][]message {
	t.Helper()
	out := map[string][]message{}
	keys := map[string][]string{} // by turn
	for _, m := range list {
		if _, turn, _, err := subjects.ParseOut(m.Subject); err == nil {
			for _, k := range keyIn.FindAllSubmatch(m.Data, -1) {
				keys[turn.ID] = append(keys[turn.ID], string(k[1]))
			}
			out[turn.ID] = nil
		}
	}
	for _, m := range list {
		key, _, fact := audit.KeyOf(m.Subject)
		_, told, err1 := subjects.ParseEvents(m.Subject)
		_, said, _, err2 := subjects.ParseOut(m.Subject)
		for id := range out {
			if fact && slices.Contains(keys[id], key) || err1 == nil && told.ID == id || err2 == nil && said.ID == id {
				out[id] = append(out[id], m)
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("%d turns", len(out))
	}
	return out
}

// forgeries of one message: what it says, what its headers say, where it lies, and that
// it is there at all. Each has a name.
func forgeries(list []message, i int) map[string][]message {
	m := list[i]
	out := map[string][]message{"drop": slices.Delete(slices.Clone(list), i, i+1)}
	for n, at := range places(m) {
		if step := max(1, len(places(m)) / *flips); n%step == 0 {
			data := bytes.Clone(m.Data)
			data[at] ^= 1
			out[fmt.Sprintf("flip of byte %d", at)] = with(list, i, data)
		}
	}
	for name, value := range m.Header {
		if !strings.HasPrefix(name, "Tf-") {
			continue
		}
		for _, other := range []string{value + "0", strings.Map(func(r rune) rune { return r ^ 1 }, value), ""} {
			forged := slices.Clone(list)
			forged[i].Header = maps.Clone(m.Header)
			forged[i].Header[name] = other
			out[fmt.Sprintf("%s %q instead of %q", name, other, value)] = forged
		}
	}
	part := strings.Split(m.Subject, ".")
	for n := range part {
		forged := slices.Clone(list)
		again := slices.Clone(part)
		again[n] += "x"
		if n == 2 { // the partition
			again[n] = map[string]string{"0": "1", "1": "0"}[part[n]]
		}
		forged[i].Subject = strings.Join(again, ".")
		out["it lies on "+forged[i].Subject] = forged
	}
	stream := slices.Clone(list)
	stream[i].stream = strings.NewReplacer("_0", "_1", "_1", "_0").Replace(m.stream)
	out["it lies in "+stream[i].stream] = stream
	return out
}

// inert says of which messages of a turn not every forgery can be found, and why.
func inert(turn string, list []message, i int) bool {
	m := list[i]
	last := 0
	for j, x := range list {
		if strings.HasPrefix(x.stream, "TF_OUT") {
			last = j
		}
	}
	switch {
	case strings.HasPrefix(m.stream, "TF_EV"):
		return i > last // after a turn's last output, which the fold ignores
	case strings.HasPrefix(m.stream, "TF_FX") && !strings.HasSuffix(m.Subject, ".body"):
		f, err := effect.DecodeFact(m.Data)
		// A claim of another turn, with which this one shares a key, is judged there. And
		// that an outcome was unknown before it was known is one fact among others.
		return err == nil && (!strings.HasPrefix(f.Call, turn+"/") || f.Outcome == effect.Unknown && settledLater(list, i, f.Token))
	}
	return false
}

func settledLater(list []message, i int, token string) bool {
	for _, m := range list[i+1:] {
		if f, err := effect.DecodeFact(m.Data); err == nil && f.Token == token && (f.Outcome == effect.Failed || f.Outcome == effect.Succeeded) {
			return true
		}
	}
	return false
}

// TestTamperKinds forges one message at a time in a turn of each kind: EV, OUT and FX,
// what they say, their headers, their subjects, their streams. Every forgery is found,
// and named by an invariant or refused with its line.
func TestTamperKinds(t *testing.T) {
	h, list := load(t, kinds)
	all, tried, named := 0, 0, map[string]int{}
	turns := excerpts(t, list)
	for _, id := range slices.Sorted(maps.Keys(turns)) {
		turn := turns[id]
		h.Turn = subjects.LocalTenant + "/" + id // other turns' messages lie between
		if bad, err := judged(t, h, turn); err != nil || len(bad) > 0 {
			t.Errorf("%s as it was: %v, %v", id, bad, err)
			continue
		}
		for i, m := range turn {
			forged := forgeries(turn, i)
			for _, what := range slices.Sorted(maps.Keys(forged)) {
				if all++; all%*stride != 0 {
					continue
				}
				tried++
				bad, err := judged(t, h, forged[what])
				if len(bad) == 0 && err == nil && !inert(h.Turn, turn, i) {
					t.Errorf("%s: %s %d: %s: not found: %s", id, m.stream, m.Seq, what, m.Data)
				}
				for _, b := range bad {
					named[b]++
				}
			}
		}
	}
	t.Logf("%d of %d forgeries; named %v", tried, all, named)
	if tried < 100 || len(named) < 6 {
		t.Errorf("%d of %d forgeries, named by %v", tried, all, named)
	}
}
