package audit_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

var (
	flips  = flag.Int("tamper.flips", flipsDefault, "how many bytes of a message are forged")
	some   = flag.Int("tamper.some", someDefault, "one of so many forgeries of whole histories is tried; 1 for all")
	stride = flag.Int("tamper.stride", strideDefault, "one of so many forgeries of turns of every kind is tried; 1 for all")
)

// judged audits messages as a forger with all the time in the world would present
// them: in a bundle whose chain and manifest fit.
func judged(t *testing.T, h audit.Head, list []message) (bad []string, err error) {
	t.Helper()
	var b bytes.Buffer
	h.Type, h.FromText = "", ""
	w, err := audit.NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if err := w.Add(m.stream, m.Msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	e, err := audit.Verify(&b, true, func(v audit.Verdict) {
		for _, c := range v.Invariants {
			if !c.OK {
				bad = append(bad, c.ID)
			}
		}
	})
	for _, c := range e.Report.Partitions {
		bad = append(bad, c.ID)
	}
	return bad, err
}

// renumbered gives each stream's messages the places that they would have on a log that
// was made of them.
func renumbered(list []message) []message {
	next := map[string]uint64{}
	out := make([]message, len(list))
	for i, m := range list {
		next[m.stream]++
		m.Seq = next[m.stream]
		out[i] = m
	}
	return out
}

func with(list []message, i int, data []byte) []message {
	out := slices.Clone(list)
	out[i].Data = data
	return out
}

// places are the bytes of a message that are flipped: all, or of a fact those of the
// members that mean something. Who wrote it and why, in words, nothing else repeats.
func places(m message) []int {
	var out []int
	if !strings.HasPrefix(m.stream, "TF_FX") || strings.HasSuffix(m.Subject, ".body") {
		for i := range m.Data {
			out = append(out, i)
		}
		return out
	}
	f, err := effect.DecodeFact(m.Data)
	if err != nil {
		panic(err)
	}
	for _, part := range []string{string(f.Kind), f.Token, f.Call, string(f.Outcome), f.BodyDigest} {
		if at := bytes.Index(m.Data, []byte(`"`+part+`"`)); part != "" && at > 0 {
			for i := range part {
				out = append(out, at+1+i)
			}
		}
	}
	return out
}

// TestTamper changes, drops, doubles and swaps messages of recorded histories, and
// changes their bytes: every forgery is found, and named by what it breaks.
func TestTamper(t *testing.T) {
	for _, file := range golden(t) {
		if file == kinds {
			continue // TestTamperKinds
		}
		h, list := load(t, file)
		if bad, err := judged(t, h, list); err != nil || len(bad) > 0 {
			t.Fatalf("%s as it was: %v, %v", file, bad, err)
		}
		found, all := map[string]int{}, 0
		expect := func(what string, m message, forged []message) {
			t.Helper()
			if all++; all%*some != 0 {
				return
			}
			bad, err := judged(t, h, forged)
			if len(bad) == 0 && err == nil {
				t.Errorf("%s: %s of %s %d is not found: %s", file, what, m.stream, m.Seq, m.Data)
			}
			for _, id := range bad {
				found[m.stream[:5]+" "+what+" "+id]++
			}
		}
		for i, m := range list {
			step := max(1, len(places(m)) / *flips)
			for n := 0; n < len(places(m)); n += step {
				data := bytes.Clone(m.Data)
				data[places(m)[n]] ^= 1
				expect(fmt.Sprintf("flip at %d", places(m)[n]), m, with(list, i, data))
			}
			expect("drop", m, renumbered(slices.Delete(slices.Clone(list), i, i+1)))
			if !strings.HasPrefix(m.stream, "TF_FX") { // facts said twice say no more, in any order
				expect("gap", m, slices.Delete(slices.Clone(list), i, i+1))
				// After the end anybody may add what the fold ignores.
				if nextOf(list, i) > 0 || strings.HasPrefix(m.stream, "TF_OUT") {
					expect("double", m, renumbered(slices.Insert(slices.Clone(list), i, m)))
				}
				if j := nextOf(list, i); j > 0 {
					swapped := slices.Clone(list)
					swapped[i].Msg, swapped[j].Msg = swapped[j].Msg, swapped[i].Msg
					expect("swap", m, renumbered(swapped))
				}
			}
			for name := range m.Header {
				if strings.HasPrefix(name, "Tf-") {
					forged := slices.Clone(list)
					forged[i].Header = map[string]string{}
					for k, v := range m.Header {
						if k != name {
							forged[i].Header[k] = v
						}
					}
					expect("headless", m, forged)
				}
			}
		}
		t.Logf("%s: %d forgeries, %d kinds of findings", file, all / *some, len(found))
	}
}

func nextOf(list []message, i int) int {
	for j := i + 1; j < len(list); j++ {
		if list[j].stream == list[i].stream {
			return j
		}
	}
	return 0
}

// rebuild makes a log of messages through the API of a fresh server.
func rebuild(t *testing.T, partitions int, list []message) audit.Log {
	t.Helper()
	srv, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	conn, err := jet.Connect(ctx, jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = conn.Close(ctx)
		srv.Shutdown()
	})
	if err := conn.Ensure(ctx, subjects.Layout{Partitions: partitions, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		header := map[string]string{}
		for k, v := range m.Header {
			if strings.HasPrefix(k, "Tf-") {
				header[k] = v
			}
		}
		if _, err := conn.Publish(ctx, m.Subject, header, m.Data); err != nil {
			t.Fatal(err)
		}
	}
	return audit.Log{Conn: conn, Partitions: partitions}
}

// The same on real logs: one forgery of each kind of stream.
func TestTamperLog(t *testing.T) {
	h, list := load(t, golden(t)[0])
	audited := func(list []message) audit.Report {
		t.Helper()
		log := rebuild(t, h.Partitions, list)
		r, err := log.All(context.Background(), audit.Scan{Settled: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := audited(list); !r.OK || r.Turns != 1 {
		t.Fatalf("as it was: %+v", r)
	}
	for _, prefix := range []string{"TF_EV", "TF_OUT", "TF_FX"} {
		var of []int
		for i, m := range list {
			if strings.HasPrefix(m.stream, prefix) {
				of = append(of, i)
			}
		}
		i := of[len(of)/2]
		flipped := bytes.Clone(list[i].Data)
		flipped[places(list[i])[0]] ^= 1
		for what, forged := range map[string][]message{
			"flip": with(list, i, flipped), "drop": slices.Delete(slices.Clone(list), i, i+1),
		} {
			if r := audited(forged); r.OK {
				t.Errorf("%s of %s %d is not found", what, list[i].stream, list[i].Seq)
			}
		}
	}
}
