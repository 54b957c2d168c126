package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Facts is what FX says of every effect key, in some 150 bytes a key: outcomes, and
// names as hashes. An audit of a whole log has to hold effects against turns that lie
// on other partitions, and this is what it can keep of them all.
type Facts struct {
	seed maphash.Seed
	mu   sync.Mutex
	keys map[uint64]*keyFacts
	// Count is the number of facts and bodies read.
	Count uint64
	// Bad are messages of FX that are no facts, or contradict each other.
	bad offences
}

// keyFacts is what is known of one key.
type keyFacts struct {
	tokens []tokenFacts
	notRun []uint64 // hashes of calls
	fault  string   // what is wrong among its facts
	at     uint64   // where
}

// tokenFacts is what is known of one claim.
type tokenFacts struct {
	id, call, turn  uint64 // hashes
	body            uint64 // hash of the digest of the stored body; 0 = none
	digest          uint64 // hash of the digest that the report names
	seq             uint64 // of its first fact
	part            int32
	claimed, asked  bool
	erased          bool // its result was taken away on purpose
	succeeded       bool
	failed, unknown bool
}

// NewFacts knows nothing yet.
func NewFacts() *Facts { return &Facts{seed: maphash.MakeSeed(), keys: map[uint64]*keyFacts{}} }

func (f *Facts) hash(s string) uint64 { return maphash.String(f.seed, s) }

const bodySuffix = ".body"

// Add takes in a message of FX. Only a fact that is newer than this binary is an
// error: to skip it could be to skip an offence.
func (f *Facts) Add(p int, m jet.Msg) error {
	key, isBody, ok := KeyOf(m.Subject)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Count++
	if !ok || !strings.HasPrefix(m.Subject, subjects.Effect(p, "")) {
		f.bad.add("I7", streamFX, m.Seq, "%s is no subject of an effect in partition %d", m.Subject, p)
		return nil
	}
	k := f.keys[f.hash(key)]
	if k == nil {
		k = &keyFacts{}
		f.keys[f.hash(key)] = k
	}
	if isBody {
		sum := sha256.Sum256(m.Data)
		k.token(f.hash(m.Header[jet.TokenHeader]), p, m.Seq).body = f.hash(string(sum[:]))
		return nil
	}
	fact, err := effect.DecodeFact(m.Data)
	if errors.Is(err, effect.ErrFactVersion) {
		return err
	}
	if err != nil {
		k.wrong(m.Seq, err.Error())
		f.bad.add("I7", streamFX, m.Seq, "%v", err)
		return nil
	}
	f.add(k, p, m.Seq, fact)
	return nil
}

// KeyOf takes a subject of FX apart.
func KeyOf(subject string) (key string, body, ok bool) {
	part := strings.Split(subject, ".")
	switch {
	case len(part) == 4 && part[0] == "tf" && part[1] == "fx":
		return part[3], false, true
	case len(part) == 5 && part[0] == "tf" && part[1] == "fx" && "."+part[4] == bodySuffix:
		return part[3], true, true
	}
	return "", false, false
}

func (k *keyFacts) wrong(seq uint64, what string) {
	if k.fault == "" {
		k.fault, k.at = what, seq
	}
}

func (k *keyFacts) token(id uint64, p int, seq uint64) *tokenFacts {
	for i := range k.tokens {
		if k.tokens[i].id == id {
			return &k.tokens[i]
		}
	}
	k.tokens = append(k.tokens, tokenFacts{id: id, seq: seq, part: int32(p)})
	return &k.tokens[len(k.tokens)-1]
}

func (f *Facts) add(k *keyFacts, p int, seq uint64, fact effect.Fact) {
	if fact.Kind == effect.KindNotRun {
		k.notRun = append(k.notRun, f.hash(fact.Call))
		return
	}
	if fact.Token == "" {
		return // a kind that this binary does not know
	}
	t, call := k.token(f.hash(fact.Token), p, seq), f.hash(fact.Call)
	if t.call != 0 && t.call != call {
		k.wrong(seq, "one claim is made for two calls")
	}
	t.call, t.turn = call, f.hash(fact.Call[:max(strings.LastIndexByte(fact.Call, '/'), 0)])
	if fact.Kind == effect.KindErased {
		t.erased = true
		return
	}
	if fact.Kind != effect.KindReport {
		t.claimed = true
		return
	}
	switch fact.Outcome {
	case effect.Succeeded:
		t.succeeded = true
	case effect.Failed:
		t.failed = true
	case effect.Unknown:
		t.unknown = true
	default:
		k.wrong(seq, "a claim is reported "+string(fact.Outcome)+", which is no outcome of a run")
	}
	if t.succeeded && t.failed {
		k.wrong(seq, "one claim is reported succeeded and failed")
	}
	if raw, err := hex.DecodeString(fact.BodyDigest); err == nil && len(raw) == sha256.Size {
		if d := f.hash(string(raw)); t.digest != 0 && t.digest != d {
			k.wrong(seq, "one claim is reported with two results")
		} else {
			t.digest = d
		}
	} else if fact.BodyDigest != "" {
		k.wrong(seq, "the digest of a result is none")
	}
}

// judge holds what a turn says of its calls against the facts of their keys.
func (f *Facts) judge(turn subjects.Turn, s *fold.State, found *offences) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Key != "" {
				f.call(turn, s, c, found)
			}
		}
	}
}

func (f *Facts) call(turn subjects.Turn, s *fold.State, c *fold.Call, found *offences) {
	k := f.keys[f.hash(c.Key)]
	if k == nil {
		k = &keyFacts{}
	}
	name := f.hash(turn.String() + "/" + c.ID)
	for i := range k.tokens {
		t := &k.tokens[i]
		t.asked = t.asked || t.call == name
		switch {
		case t.call == name && !t.claimed:
			found.add("I7", streamFX, t.seq, "call %s: its claim is missing", c.ID)
		case t.call == name && c.Settled() && c.ErrorClass != "deadline" && !t.succeeded && !t.failed && !t.unknown:
			found.add("I7", streamFX, t.seq, "call %s: it has an outcome, and a claim of it was never reported", c.ID)
		case t.digest != 0 && t.body != 0 && t.digest != t.body:
			found.add("I7", streamFX, t.seq, "call %s: the stored result is not the one reported", c.ID)
		case t.digest != 0 && t.body == 0 && !t.erased:
			found.add("I7", streamFX, t.seq, "call %s: the reported result is missing", c.ID)
		}
	}
	if k.fault != "" {
		found.add("I7", streamFX, k.at, "call %s: %s", c.ID, k.fault)
	}
	if isOnce(s, c.Tool) && k.unaccounted() > 1 {
		found.add("I7", streamFX, k.tokens[0].seq, "call %s: an effect that may be tried once was claimed %d times", c.ID, len(k.tokens))
	}
	if fault := k.disagree(name, c); fault != "" {
		found.add("I7", streamEV, s.Seq, "call %s: %s", c.ID, fault)
	}
}

func isOnce(s *fold.State, tool string) bool {
	for _, t := range s.Opened.Tools {
		if t.Name == tool {
			return t.Effect == string(effect.Once)
		}
	}
	return false
}

// unaccounted counts the claims that may have acted.
func (k *keyFacts) unaccounted() int {
	n := 0
	for _, t := range k.tokens {
		if !t.failed || t.succeeded {
			n++
		}
	}
	return n
}

// disagree says how an outcome on EV contradicts the facts of its key. A failed call's
// key may well have succeeded later, for another call; what is unknown on EV may be
// known by now.
func (k *keyFacts) disagree(name uint64, c *fold.Call) string {
	succeeded, failed, own := false, false, false
	for _, t := range k.tokens {
		succeeded = succeeded || t.succeeded
		failed = failed || t.failed
		own = own || t.call == name && t.succeeded
	}
	switch c.Outcome {
	case event.OutcomeSucceeded:
		if !succeeded {
			return "it is said to have succeeded, and no fact of its key says so"
		}
	case event.OutcomeFailed:
		if !failed {
			return "it is said to have failed, and no fact of its key says so"
		}
		fallthrough
	case event.OutcomeNotRun, event.OutcomeRefused:
		if own {
			return "it is said to be " + string(c.Outcome) + ", and a claim made for it reports success"
		}
	}
	return ""
}

// late checks an outcome that became known after the turn had ended.
func (f *Facts) late(turn subjects.Turn, seq uint64, b *event.CallSettled, found *offences) {
	if b.Key == "" || b.Outcome != event.OutcomeSucceeded && b.Outcome != event.OutcomeFailed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.keys[f.hash(b.Key)]
	if k == nil {
		k = &keyFacts{}
	}
	c := &fold.Call{ID: b.Call, Outcome: b.Outcome}
	if fault := k.disagree(f.hash(turn.String()+"/"+b.Call), c); fault != "" {
		found.add("I7", streamEV, seq, "call %s: %s", b.Call, fault)
	}
}

// buried has the claims of erased turns count as asked for, as their tombstones say.
func (f *Facts) buried(turn string, calls []turns.ErasedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range calls {
		k, name := f.keys[f.hash(c.Key)], f.hash(turn+"/"+c.Call)
		if k == nil {
			continue
		}
		for i := range k.tokens {
			k.tokens[i].asked = k.tokens[i].asked || k.tokens[i].call == name
		}
	}
}

// orphan is a claim that no call of a turn that was read asked for.
type orphan struct {
	part int
	seq  uint64
	turn uint64 // hash of its name
}

func (f *Facts) orphans() []orphan {
	var out []orphan
	for _, k := range f.keys {
		for _, t := range k.tokens {
			if t.call != 0 && !t.asked {
				out = append(out, orphan{int(t.part), t.seq, t.turn})
			}
		}
	}
	return out
}
