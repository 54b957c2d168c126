package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// peers are the executors of the deployment as this process sees them.
type peers interface {
	// Live lists those that live, this one among them; false until the list was read.
	Live() ([]string, bool)
	// Notes is what the others among them said last; Say has this one say something.
	Notes() map[string]string
	Say(note string)
	// Changed is closed when Live or Notes change.
	Changed() <-chan struct{}
}

// rollcall is how executors learn that each of them has stated again what it knows
// (docs/effects.md, "Claims"). One that has reason to doubt
// the log asks a question, with a number that nobody has used before. Every other one
// then closes its gate, looks at the log, states again what is missing, and answers
// with that number. So an answer comes from a look that began after the question, and
// the question came after the doubt.
//
// Nobody claims while any of them is still stating: what it has to say may be the very
// claim.
//
// A member that says nothing new for patience is waited for no longer; one that has
// much to state shows that it gets on.
type rollcall struct {
	peers    peers
	self     string // instance
	life     string // incarnation: it makes numbers of questions unique
	patience time.Duration
	log      zerolog.Logger

	mu     sync.Mutex
	said   assertion
	asked  uint64            // questions so far
	open   string            // our question that not all have answered yet
	taken  map[string]string // instance → its question that a look has begun to answer
	toldAt time.Time
}

// assertion is what an executor says of itself with its signs of life.
type assertion struct {
	Ask  string            `json:"ask,omitempty"`  // its latest question
	Busy bool              `json:"busy,omitempty"` // it states, or looks whether it has to
	Step uint64            `json:"step,omitempty"` // moves while it does
	Done map[string]string `json:"done,omitempty"` // instance → the question of it that is answered
}

func readAssertion(note string) (a assertion) {
	_ = json.Unmarshal([]byte(note), &a) // of another version: it answers nothing, and patience ends
	return a
}

// begin says that this host looks at the log, with ask that every other is to do so. It
// returns the others' questions that the look is an answer to.
func (r *rollcall) begin(ask bool) (questions map[string]string) {
	questions = map[string]string{}
	for who, note := range r.peers.Notes() {
		if q := readAssertion(note).Ask; q != "" {
			questions[who] = q
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Busy, r.taken = true, questions
	if ask {
		r.question()
	}
	r.say()
	return questions
}

// ask asks for a look that the one before was not: it has found a loss.
func (r *rollcall) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.question()
	r.say()
}

func (r *rollcall) question() {
	r.asked++
	r.open = fmt.Sprintf("%s/%d", r.life, r.asked)
	r.said.Ask = r.open
}

// progress shows now and then that there is more to state.
func (r *rollcall) progress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Step++
	if now := time.Now(); now.Sub(r.toldAt) > r.patience/8 {
		r.say()
	}
}

// answer says that everything is stated.
func (r *rollcall) answer(questions map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Busy, r.said.Done = false, questions
	r.say()
}

// say must be called with mu held, so that what is said last is the latest.
func (r *rollcall) say() {
	r.toldAt = time.Now()
	note, err := json.Marshal(r.said)
	if err != nil {
		panic(fmt.Sprintf("executor: an assertion cannot be written: %v", err)) // strings and numbers can
	}
	r.peers.Say(string(note))
}

// wanted says whether another asks something that nobody has begun to answer.
func (r *rollcall) wanted() bool {
	r.mu.Lock()
	taken := r.taken
	r.mu.Unlock()
	for who, note := range r.peers.Notes() {
		if q := readAssertion(note).Ask; q != "" && q != taken[who] {
			return true
		}
	}
	return false
}

// await returns when nobody is stating and all have answered the question that is open.
// It is true, and the wait is to be gone on with, if somebody asks meanwhile.
func (r *rollcall) await(ctx context.Context) (wanted bool, err error) {
	w := wait{began: time.Now(), news: map[string]time.Time{}, notes: r.peers.Notes()}
	for {
		changed := r.peers.Changed() // before looking
		if r.wanted() {
			return true, nil
		}
		now := time.Now()
		w.hear(r.peers.Notes(), now)
		left, silent := r.missing(w, now)
		if left <= 0 {
			r.close(silent)
			return false, nil
		}
		t := time.NewTimer(left)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if t.Stop(); err != nil {
			return false, err
		}
	}
}

// wait is who said what while this one waited.
type wait struct {
	began time.Time
	notes map[string]string
	news  map[string]time.Time // when one last said something new
}

func (w *wait) hear(notes map[string]string, now time.Time) {
	for who, note := range notes {
		if note != w.notes[who] {
			w.news[who] = now
		}
	}
	w.notes = notes
}

// missing is how long there may be somebody to wait for, if nothing changes; silent are
// those for whom the wait is over.
func (r *rollcall) missing(w wait, now time.Time) (left time.Duration, silent []string) {
	r.mu.Lock()
	open := r.open
	r.mu.Unlock()
	live, known := r.peers.Live()
	if !known {
		left = w.began.Add(r.patience).Sub(now)
	}
	for _, i := range live {
		a := readAssertion(w.notes[i])
		if i == r.self || !a.Busy && (open == "" || a.Done[r.self] == open) {
			continue
		}
		since := w.began
		if w.news[i].After(since) {
			since = w.news[i]
		}
		if more := since.Add(r.patience).Sub(now); more > 0 {
			left = max(left, more)
		} else {
			silent = append(silent, i)
		}
	}
	return left, silent
}

// close ends the question.
func (r *rollcall) close(silent []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = ""
	if len(silent) > 0 {
		r.log.Warn().Strs("executors", silent).Stringer("patience", r.patience).
			Msg("they do not say that they have stated their effects again; going on without them")
	}
}
