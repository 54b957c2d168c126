package keystore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/subjects/effect"
)

// The power goes while many callers write, again and again: whatever was
// acknowledged before is there, and what is there can be read.
func TestPowerCutUnderLoad(t *testing.T) {
	mem := vfs.NewCrashableMem()
	acked := map[int]effect.Outcome{}
	for cut := range 4 {
		s := open(t, "d", mem)
		l := load{acked: acked, enough: make(chan struct{}), stop: make(chan struct{})}
		for c := range callers {
			l.group.Go(func() { l.call(t, s, cut*10_000+c) })
		}
		<-l.enough
		acked = l.seen()
		mem = mem.CrashClone(vfs.CrashCloneCfg{})
		close(l.stop)
		l.group.Wait()
		must(t, s.Close())
		checkAfterCut(t, mem, acked)
	}
}

const (
	callers  = 16
	loadKeys = 40 // so that callers meet on keys
)

type load struct {
	group  sync.WaitGroup
	enough chan struct{} // closed after some hundred acknowledgements
	stop   chan struct{}

	mu    sync.Mutex
	count int
	acked map[int]effect.Outcome // "" after the intent
}

func (l *load) seen() map[int]effect.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

func (l *load) ack(n int, o effect.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[n] = o
	if l.count++; l.count == 300 {
		close(l.enough)
	}
}

func (l *load) call(t *testing.T, s *Store, first int) {
	for n := first; n < first+10_000-callers; n += callers {
		select {
		case <-l.stop:
			return
		default:
		}
		key, token := keyOf(n%loadKeys), tokenOf(n)
		if err := s.Intent(ctx, Intent{Key: key, Token: token, Call: fmt.Sprint("c", n), Command: []byte("x")}); err != nil {
			t.Error(err)
		}
		l.ack(n, "")
		o := []effect.Outcome{effect.Succeeded, effect.Failed, effect.Unknown}[n%3]
		if err := s.Report(ctx, Report{Key: key, Token: token, Outcome: o, Body: bytes.Repeat([]byte("b"), n%2*900)}); err != nil {
			t.Error(err)
		}
		l.ack(n, o)
	}
}

func checkAfterCut(t *testing.T, mem *vfs.MemFS, acked map[int]effect.Outcome) {
	t.Helper()
	s := open(t, "d", mem)
	views := map[string]effect.View{}
	claims := 0
	must(t, s.All(func(key string, fs []effect.Fact) error {
		views[key] = effect.Join(fs)
		claims += len(views[key].Tokens)
		return nil
	}))
	for n, want := range acked {
		token, ok := views[keyOf(n%loadKeys)].Token(tokenOf(n))
		if !ok || !token.Claimed || want != "" && token.Report.Outcome != want {
			t.Errorf("%d was acknowledged as %q, after the cut it is %+v", n, want, token)
		}
	}
	interrupted, err := s.Interrupted()
	must(t, err)
	outbox, err := s.Outbox()
	must(t, err)
	if len(interrupted)+len(outbox) != claims {
		t.Errorf("%d claims, %d interrupted, %d unsettled", claims, len(interrupted), len(outbox))
	}
	must(t, s.Close())
}

// model is what a Store should say, kept in plain maps.
type model struct {
	tokens  map[string]effect.Fact // the report that counts; Outcome empty while open
	pending map[string]bool
	notRun  map[string]bool
}

func (m *model) report(f effect.Fact) error {
	before, ok := m.tokens[f.Token]
	if ok && before.Outcome.Known() && f.Outcome.Known() && before.Outcome != f.Outcome {
		return ErrOutcomeKnown
	}
	if !before.Outcome.Known() && effect.CompareReports(f, before) > 0 {
		m.tokens[f.Token] = f
		m.pending[f.Token] = true
	}
	return nil
}

// Random calls on one key, with power cuts between them, against the model.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewCrashableMem()
		s := mustOpen(t, mem)
		defer func() { _ = s.Close() }()
		m := model{map[string]effect.Fact{}, map[string]bool{}, map[string]bool{}}
		claimed, settledUnsynced := map[string]bool{}, map[string]bool{}
		token := func() string { return rapid.SampledFrom([]string{"t1", tokenOf(2), tokenOf(3)}).Draw(t, "token") }
		t.Repeat(map[string]func(*rapid.T){
			"intent": func(*rapid.T) {
				id := token()
				err := s.Intent(ctx, Intent{Key: k, Token: id, Call: "c"})
				if m.tokens[id].Outcome != "" {
					wantErr(t, err, ErrTokenUsed)
					return
				}
				wantErr(t, err, nil)
				m.tokens[id], m.pending[id], claimed[id] = effect.Fact{}, true, true
			},
			"report": func(*rapid.T) {
				f := effect.Fact{Token: token(), Outcome: rapid.SampledFrom([]effect.Outcome{effect.Succeeded, effect.Failed, effect.Unknown}).Draw(t, "outcome")}
				f.ErrorClass = rapid.SampledFrom([]string{"", effect.Interrupted, "timeout"}).Draw(t, "class")
				err := s.Report(ctx, Report{Key: k, Token: f.Token, Call: "c", Outcome: f.Outcome, ErrorClass: f.ErrorClass})
				wantErr(t, err, m.report(f))
				if m.pending[f.Token] {
					delete(settledUnsynced, f.Token)
				}
			},
			"abandon": func(*rapid.T) {
				id := token()
				err := s.Abandon(ctx, k, id)
				if m.tokens[id].Outcome != "" {
					wantErr(t, err, ErrTokenUsed)
					return
				}
				wantErr(t, err, nil)
				delete(m.tokens, id)
				delete(m.pending, id)
				delete(claimed, id)
			},
			"settle": func(*rapid.T) {
				id, o := token(), rapid.SampledFrom([]effect.Outcome{effect.Succeeded, effect.Unknown}).Draw(t, "published")
				err := s.MarkSettled(ctx, []Settled{{k, id, o}}, nil)
				if m.tokens[id].Outcome == "" {
					wantErr(t, err, ErrNotReported)
					return
				}
				wantErr(t, err, nil)
				if m.tokens[id].Outcome == o {
					delete(m.pending, id)
					settledUnsynced[id] = true
				}
			},
			"not_run": func(*rapid.T) {
				call := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "call")
				wantErr(t, s.NotRun(ctx, k, call), nil)
				m.notRun[call] = true
			},
			"power cut": func(*rapid.T) {
				mem = mem.CrashClone(vfs.CrashCloneCfg{})
				_ = s.Close()
				s = mustOpen(t, mem)
				unsettled, err := s.Outbox() // a lost settle is allowed, and nothing else
				wantErr(t, err, nil)
				for _, u := range unsettled {
					if settledUnsynced[u.Token] {
						m.pending[u.Token] = true
					}
				}
				clear(settledUnsynced)
			},
			"": func(*rapid.T) { compare(t, s, m, claimed) },
		})
	})
}

func mustOpen(t *rapid.T, mem *vfs.MemFS) *Store {
	s, err := Open("d", Config{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantErr(t *rapid.T, got, want error) {
	if !errors.Is(got, want) {
		t.Fatalf("error %v, want %v", got, want)
	}
}

func compare(t *rapid.T, s *Store, m model, claimed map[string]bool) {
	fs, err := s.Facts(k)
	wantErr(t, err, nil)
	v := effect.Join(fs)
	got := model{map[string]effect.Fact{}, map[string]bool{}, map[string]bool{}}
	for _, token := range v.Tokens {
		got.tokens[token.ID] = effect.Fact{Token: token.Report.Token, Outcome: token.Report.Outcome, ErrorClass: token.Report.ErrorClass}
		if token.Claimed != claimed[token.ID] {
			t.Fatalf("claimed %v: %+v", claimed[token.ID], token)
		}
		// What a claim's own process reads is what its rows say.
		if f, ok, err := s.Reported(k, token.ID); err != nil || ok == token.Open() || f != token.Report {
			t.Fatalf("reported %+v, %v, %v; the rows say %+v", f, ok, err, token.Report)
		}
	}
	for _, call := range v.NotRun {
		got.notRun[call] = true
	}
	wantErr(t, each(s.db, []byte{rowPending}, func(row, value []byte) error {
		p, err := splitPending(row, value)
		got.pending[p.token] = true
		return err
	}), nil)
	if !reflect.DeepEqual(got, m) {
		t.Fatalf("store %+v\nmodel %+v", got, m)
	}
}

// A key of one claim with a small result costs well under 300 bytes on disk.
func TestDiskBytesPerKey(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	const keys = 5000
	for n := range keys {
		settledCall(t, s, n)
	}
	must(t, s.db.Flush())
	must(t, s.db.Compact(ctx, []byte{0}, []byte{0xff}, false))
	bytes, err := s.db.EstimateDiskUsage([]byte{0}, []byte{0xff})
	must(t, err)
	t.Logf("%d bytes per key", bytes/keys)
	if bytes/keys > 200 {
		t.Errorf("%d bytes per key", bytes/keys)
	}
	if left, err := s.Outbox(); err != nil || len(left) > 0 {
		t.Errorf("outbox %d, %v", len(left), err)
	}
}

// settledCall is all that the store sees of a call that goes well.
func settledCall(t testing.TB, s *Store, n int) {
	key, token := keyOf(n), tokenOf(n)
	call := fmt.Sprintf("0190a1b2-0000-7000-8000-%012d/1.0", n)
	must(t, s.Intent(ctx, Intent{Key: key, Token: token, Call: call, Input: uint64(n), At: at,
		Command: []byte(`{"v":1,"kind":"call","tool":"issue_refund","args":"{\"order_id\":\"o-1\",\"amount\":49}"}`)}))
	must(t, s.Report(ctx, Report{Key: key, Token: token, Outcome: effect.Succeeded, At: at,
		Body: fmt.Appendf(nil, `{"refund":"r-%d","status":"accepted"}`, n)}))
	must(t, s.MarkSettled(ctx, []Settled{{key, token, effect.Succeeded}}, nil))
}

// Synced writes at 64 callers on a real directory: two per call.
func BenchmarkSettledCalls(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	var next sync.Mutex
	n := 0
	b.SetParallelism(32) // times GOMAXPROCS; 64 callers on two cores
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			next.Lock()
			n++
			mine := n
			next.Unlock()
			settledCall(b, s, mine)
		}
	})
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "synced/s")
}

// Opening and listing what was interrupted must not depend on how many keys
// there are.
func BenchmarkOpenAfterManyKeys(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, nil)
	const keys = 300_000
	batch := s.db.NewBatch()
	for n := range keys {
		r := record{claimed: true, call: "T1/1.0", claimedAt: at, outcome: effect.Succeeded, reportedAt: at, place: bodyInline, body: []byte("{}")}
		set(batch, tokenRow(keyOf(n), tokenOf(n)), r.encode())
		set(batch, pendingRow(keyOf(n), tokenOf(n)), s.pending([]byte("x")))
		del(batch, pendingRow(keyOf(n), tokenOf(n)))
		if batch.Len() > 1<<20 {
			must(b, batch.Commit(pebble.NoSync))
			batch = s.db.NewBatch()
		}
	}
	must(b, batch.Commit(pebble.Sync))
	for n := range 100 {
		must(b, s.Intent(ctx, Intent{Key: keyOf(-1 - n), Token: tokenOf(n), Call: "c"}))
	}
	must(b, s.Close())
	for b.Loop() {
		s, err := Open(dir, Config{})
		must(b, err)
		left, err := s.Interrupted()
		must(b, err)
		if len(left) != 100 {
			b.Fatalf("%d interrupted", len(left))
		}
		must(b, s.Close())
	}
}
