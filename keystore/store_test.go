package keystore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/subjects/effect"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KEYSTORE_TEST_HOLD"); dir != "" {
		holdDirectory(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, dir string, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(dir, Config{Host: "h1", FS: fs, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a second Close is refused
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keyOf(n int) string { return effect.Meaning{Tool: "test", Ordinal: n}.Key() }

func tokenOf(n int) string { return fmt.Sprintf("01890000-0000-7000-8000-%012x", n) }

var (
	at    = time.Date(2026, 5, 4, 3, 2, 1, 7e6, time.UTC)
	ctx   = context.Background()
	k, t1 = keyOf(1), tokenOf(1)
)

// One call's way on a real directory, with a restart after each step.
func TestLifeOfAClaim(t *testing.T) {
	dir := t.TempDir()
	var s *Store
	restart := func() {
		t.Helper()
		if s != nil {
			must(t, s.Close())
		}
		s = open(t, dir, nil)
	}
	restart()
	in := Intent{Key: k, Token: t1, Call: "T1/1.0", Epoch: 3, Generation: 1, Input: 42,
		Identity: effect.IdentityDigest("{}"), Command: []byte("do it"), At: at}
	must(t, s.Intent(ctx, in))
	if left, err := s.Interrupted(); err != nil || len(left) != 0 {
		t.Errorf("its own intent is interrupted: %v, %v", left, err)
	}
	restart()
	if left, err := s.Interrupted(); err != nil || !reflect.DeepEqual(left, []Intent{in}) {
		t.Errorf("Interrupted = %+v, %v", left, err)
	}
	claim := effect.Fact{Kind: effect.KindClaim, Token: t1, Call: "T1/1.0", Epoch: 3, Generation: 1, Host: "h1", Input: 42, Identity: in.Identity}
	wantFacts(t, s, claim)

	rep := Report{Key: k, Token: t1, Call: "T1/1.0", Generation: 1, Outcome: effect.Unknown, ErrorClass: effect.Interrupted, Detail: "restarted", At: at}
	must(t, s.Report(ctx, rep))
	restart()
	if left, err := s.Interrupted(); err != nil || len(left) != 0 {
		t.Errorf("a reported intent is interrupted: %v, %v", left, err)
	}
	unknown := effect.Fact{Kind: effect.KindReport, Token: t1, Call: "T1/1.0", Generation: 1, Outcome: effect.Unknown,
		ErrorClass: effect.Interrupted, Detail: "restarted", Host: "h1"}
	wantFacts(t, s, claim, unknown)
	wantOutbox(t, s, Unsettled{Report: rep, Command: []byte("do it")})
	must(t, s.MarkSettled(ctx, []Settled{{k, t1, effect.Unknown}}, nil))
	restart()
	wantOutbox(t, s)

	body := []byte(`{"ok":true}`)
	must(t, s.Report(ctx, Report{Key: k, Token: t1, Outcome: effect.Succeeded, Body: body, At: at}))
	restart()
	seen, err := s.Glance(k)
	if err != nil || seen.Success == nil {
		t.Fatalf("Glance = %+v, %v", seen, err)
	}
	got := *seen.Success
	if !bytes.Equal(got.Body, body) || got.Call != "T1/1.0" || got.Generation != 1 || !got.At.Equal(at) {
		t.Errorf("success %+v", got)
	}
	known := got
	known.Body = nil
	wantOutbox(t, s, Unsettled{Report: known}) // resolved after it was published: to be published again
	must(t, s.MarkSettled(ctx, []Settled{{k, t1, effect.Unknown}}, nil))
	wantOutbox(t, s, Unsettled{Report: known}) // that was about the unknown
	must(t, s.MarkSettled(ctx, []Settled{{k, t1, effect.Succeeded}}, nil))
	wantOutbox(t, s)
	if v := effect.Join(facts(t, s, k)); v.Conflict || v.Tokens[0].Report.BodyDigest != got.BodyDigest {
		t.Errorf("view %+v", v)
	}
}

func facts(t testing.TB, s *Store, key string) []effect.Fact {
	t.Helper()
	fs, err := s.Facts(key)
	must(t, err)
	return fs
}

func wantFacts(t *testing.T, s *Store, want ...effect.Fact) {
	t.Helper()
	if got := facts(t, s, k); !reflect.DeepEqual(got, want) {
		t.Errorf("facts %+v\nwant  %+v", got, want)
	}
}

func wantOutbox(t *testing.T, s *Store, want ...Unsettled) {
	t.Helper()
	got, err := s.Outbox()
	must(t, err)
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("outbox %+v\nwant   %+v", got, want)
	}
}

// What a second report of a token does. Source: docs/invariants.md, I7.
func TestReportAfterReport(t *testing.T) {
	type rep struct {
		outcome     effect.Outcome
		class, body string
	}
	for _, c := range []struct {
		name         string
		first, later rep
		err          error
		want         rep
	}{
		{"same", rep{effect.Succeeded, "", "a"}, rep{effect.Succeeded, "", "a"}, nil, rep{effect.Succeeded, "", "a"}},
		{"another body", rep{effect.Succeeded, "", "a"}, rep{effect.Succeeded, "", "b"}, ErrOutcomeKnown, rep{effect.Succeeded, "", "a"}},
		{"success, then failure", rep{effect.Succeeded, "", "a"}, rep{effect.Failed, "x", ""}, ErrOutcomeKnown, rep{effect.Succeeded, "", "a"}},
		{"failure, then success", rep{effect.Failed, "x", ""}, rep{effect.Succeeded, "", "a"}, ErrOutcomeKnown, rep{effect.Failed, "x", ""}},
		{"known, then unknown", rep{effect.Failed, "x", ""}, rep{effect.Unknown, "timeout", ""}, nil, rep{effect.Failed, "x", ""}},
		{"failure told otherwise", rep{effect.Failed, "x", ""}, rep{effect.Failed, "y", ""}, nil, rep{effect.Failed, "x", ""}},
		{"unknown resolved", rep{effect.Unknown, "timeout", ""}, rep{effect.Succeeded, "", "a"}, nil, rep{effect.Succeeded, "", "a"}},
		{"unknown denied", rep{effect.Unknown, "timeout", ""}, rep{effect.Failed, "x", ""}, nil, rep{effect.Failed, "x", ""}},
		{"observed after interrupted", rep{effect.Unknown, effect.Interrupted, ""}, rep{effect.Unknown, "timeout", ""}, nil, rep{effect.Unknown, "timeout", ""}},
		{"interrupted after observed", rep{effect.Unknown, "timeout", ""}, rep{effect.Unknown, effect.Interrupted, ""}, nil, rep{effect.Unknown, "timeout", ""}},
	} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, large), func(t *testing.T) {
				s := open(t, "d", vfs.NewMem())
				body := func(b string) []byte {
					switch {
					case b == "":
						return nil
					case large:
						return bytes.Repeat([]byte(b), 2000)
					}
					return []byte(b)
				}
				report := func(r rep) error {
					return s.Report(ctx, Report{Key: k, Token: t1, Call: "c", Outcome: r.outcome, ErrorClass: r.class, Body: body(r.body)})
				}
				must(t, s.Intent(ctx, Intent{Key: k, Token: t1, Call: "c"}))
				must(t, report(c.first))
				if err := report(c.later); !errors.Is(err, c.err) {
					t.Errorf("later report: %v, want %v", err, c.err)
				}
				f := facts(t, s, k)[1]
				got, ok, err := s.Body(k, t1)
				if err != nil || f.Outcome != c.want.outcome || f.ErrorClass != c.want.class || !bytes.Equal(got, body(c.want.body)) || ok != (c.want.body != "") {
					t.Errorf("kept %+v, body %.10q, %v", f, got, err)
				}
			})
		}
	}
}

func TestRefused(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	intent := Intent{Key: k, Token: t1, Call: "c"}
	must(t, s.Intent(ctx, intent))
	must(t, s.Intent(ctx, intent)) // a retry
	stopped, stop := context.WithCancel(ctx)
	stop()
	digest := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name string
		got  error
		want error
	}{
		{"token of another call", s.Intent(ctx, Intent{Key: k, Token: t1, Call: "d"}), ErrTokenUsed},
		{"report for another call", s.Report(ctx, Report{Key: k, Token: t1, Call: "d", Outcome: effect.Failed}), ErrTokenUsed},
		{"no call", s.Intent(ctx, Intent{Key: k, Token: "t"}), ErrInvalid},
		{"report without call or intent", s.Report(ctx, Report{Key: k, Token: "t", Outcome: effect.Failed}), ErrInvalid},
		{"no outcome", s.Report(ctx, Report{Key: k, Token: t1}), ErrInvalid},
		{"not an outcome of a claim", s.Report(ctx, Report{Key: k, Token: t1, Outcome: effect.NotRun}), ErrInvalid},
		{"malformed digest", s.Report(ctx, Report{Key: k, Token: t1, Outcome: effect.Failed, BodyDigest: "zz"}), ErrInvalid},
		{"wrong digest", s.Report(ctx, Report{Key: k, Token: t1, Outcome: effect.Failed, Body: []byte("x"), BodyDigest: digest}), ErrInvalid},
		{"settled before reported", s.MarkSettled(ctx, []Settled{{k, t1, effect.Failed}}, nil), ErrNotReported},
		{"no withdrawn call", s.NotRun(ctx, k, ""), ErrInvalid},
		{"cancelled", s.NotRun(stopped, k, "c"), context.Canceled},
		{"digest alone", s.Report(ctx, Report{Key: k, Token: t1, Outcome: effect.Failed, BodyDigest: digest}), nil},
		{"abandoned after its report", s.Abandon(ctx, k, t1), ErrTokenUsed},
		{"intent after its report", s.Intent(ctx, intent), ErrTokenUsed},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if f := facts(t, s, k)[1]; f.BodyDigest != digest {
		t.Errorf("digest %q", f.BodyDigest)
	}
	must(t, s.Close())
	if err := s.NotRun(ctx, k, "c"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Facts(k); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAbandonLeavesNothing(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	must(t, s.Intent(ctx, Intent{Key: k, Token: t1, Call: "c", Command: []byte("x")}))
	must(t, s.Abandon(ctx, k, t1))
	must(t, s.Abandon(ctx, k, t1))
	n := 0
	must(t, each(s.db, []byte{rowFact}, func(_, _ []byte) error { n++; return nil }))
	must(t, each(s.db, []byte{rowPending}, func(_, _ []byte) error { n++; return nil }))
	if n != 0 {
		t.Errorf("%d rows left", n)
	}
}

// Keys and tokens of any form keep apart, and All shows each key once.
func TestAll(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	keys := []string{keyOf(1), keyOf(2), "a", "ab", "a\x00t", "\xff", strings.ToUpper(keyOf(1)), strings.Repeat("x", 300)}
	tokens := []string{tokenOf(1), tokenOf(2), "t", "tt", "\x00", strings.ToUpper(tokenOf(10))}
	want := map[string][]effect.Fact{}
	for _, key := range keys {
		for _, token := range tokens {
			must(t, s.Intent(ctx, Intent{Key: key, Token: token, Call: "c" + token}))
			must(t, s.Report(ctx, Report{Key: key, Token: token, Outcome: effect.Succeeded}))
		}
		must(t, s.NotRun(ctx, key, "withdrawn"))
		want[key] = facts(t, s, key)
		if n := len(want[key]); n != 2*len(tokens)+1 {
			t.Errorf("%q has %d facts", key, n)
		}
		v := effect.Join(want[key])
		first, _ := v.Succeeded()
		if got, err := s.Glance(key); err != nil || !got.Known || got.Success == nil || got.Success.Token != first.ID {
			t.Errorf("Glance(%q) = %+v, %v, want %q", key, got, err, first.ID)
		}
		if !slices.Equal(v.NotRun, []string{"withdrawn"}) {
			t.Errorf("not_run of %q: %q", key, v.NotRun)
		}
	}
	got := map[string][]effect.Fact{}
	must(t, s.All(func(key string, fs []effect.Fact) error {
		if _, twice := got[key]; twice {
			t.Errorf("%q twice", key)
		}
		got[key] = fs
		return nil
	}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("All: %d keys, want %d", len(got), len(want))
	}
	stop := errors.New("stop")
	if err := s.All(func(string, []effect.Fact) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("All went on: %v", err)
	}
	if fs := facts(t, s, "nobody"); len(fs) != 0 {
		t.Errorf("facts from nowhere: %v", fs)
	}
	if g, err := s.Glance("nobody"); g != (Glance{}) || err != nil {
		t.Errorf("something from nowhere: %+v, %v", g, err)
	}
}

func TestCloseWaitsAndCallsWithinAllAreRefused(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	must(t, s.NotRun(ctx, k, "c"))
	closed := make(chan error, 1)
	err := s.All(func(key string, _ []effect.Fact) error {
		go func() { closed <- s.Close() }()
		for {
			if _, err := s.Facts(key); err != nil {
				return err // Close has begun, and waits for this
			}
		}
	})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("within All: %v", err)
	}
	must(t, <-closed)
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open("", Config{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no directory: %v", err)
	}
	dir := t.TempDir()
	file := dir + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, Config{Log: zerolog.Nop()}); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a file: %v", err)
	}
	fs := vfs.NewMem()
	s := open(t, "d", fs)
	must(t, s.db.Set(rowVersion, []byte{formatVersion + 1}, pebble.Sync))
	must(t, s.Close())
	if _, err := Open("d", Config{FS: fs, Log: zerolog.Nop()}); !errors.Is(err, ErrFormat) {
		t.Errorf("a newer format: %v", err)
	}
}

// holdDirectory is another process that has the store open.
func holdDirectory(dir string) {
	s, err := Open(dir, Config{Log: zerolog.Nop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the test closes our input
	_ = s.Close()
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "KEYSTORE_TEST_HOLD="+dir)
	in, err := other.StdinPipe()
	must(t, err)
	out, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q", line)
	}
	_, err = Open(dir, Config{Log: zerolog.Nop()})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("held by another process: %v", err)
	}
	must(t, in.Close())
	must(t, other.Wait())
	s := open(t, dir, nil)
	if _, err := Open(dir, Config{Log: zerolog.Nop()}); !errors.Is(err, ErrLocked) {
		t.Errorf("held by this process: %v", err)
	}
	must(t, s.Close())
}
