package fold

import (
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// Status is where a turn stands.
type Status string

// The statuses. A turn is over from Completed on.
const (
	Absent    Status = ""          // no turn.opened yet
	Running   Status = "running"   // attempts and calls may come
	Ending    Status = "ending"    // cancelled or expired; waits for calls that may have begun
	Completed Status = "completed" // ended as a message
	Failed    Status = "failed"    // ended as an apology
	Erased    Status = "erased"    // its content was taken away after its end
)

// State is the fold of a turn's events. Its zero value, with Turn set, is a turn that
// has not been opened.
type State struct {
	Turn  subjects.Turn
	Seq   uint64 // of the last event applied
	Epoch uint64 // of the partition's last rewind that concerns this turn; part of output ids
	// Chain links the sums of all events so far. Outputs are stamped with it, so that an
	// audit finds a changed byte even in an event that causes nothing.
	Chain  event.Sum
	Status Status
	Opened *event.TurnOpened
	Steps  []*Step

	// ToolsOff: the loop breaker has spoken; the next request offers no tools.
	ToolsOff bool
	// Finish is the word of the completion or the class of the error, once there is one.
	Finish string
	// Message says to people why there is no finished answer.
	Message   string
	Salvaged  bool
	MessageID string // of the stored message, once it is stored
	Skipped   int    // events that this binary could not use

	nowMS    int64          // of the latest event, by the log's clock
	openedMS int64          // when it was opened, by the log's clock; 0 = unknown
	stoodMS  int64          // time that the turn has waited for nothing but a person
	ending   string         // finish word of a turn that waits for its calls
	bulk     int            // bytes of the committed text, as JSON spells them
	calls    int            // calls of committed steps, against Policy.CallsPerTurn
	attempts int            // attempts commanded, against Policy.AttemptsPerTurn
	failures map[string]int // ends other than success, per (tool, identity, error class)
	empties  map[string]int // empty results, per tool
	rows     map[string]int // equal rows found, per tool
}

// Step is one model reply within the turn.
type Step struct {
	N         int
	Attempts  []*Attempt
	Committed int    // number of the winner; 0 = none yet
	Text      string // of the winner, or what was kept of a broken attempt when the turn was salvaged
	Calls     []*Call
	ToolsOff  bool // its requests offered no tools
}

// AttemptOutcome is how an attempt stands.
type AttemptOutcome string

// The outcomes of an attempt; empty while it is commanded or open.
const (
	AttemptFinished  AttemptOutcome = "finished"
	AttemptFailed    AttemptOutcome = "failed"
	AttemptLost      AttemptOutcome = "lost"
	AttemptCancelled AttemptOutcome = "cancelled"
)

// Attempt is one provider request for a step. Everything accumulated belongs to it
// alone (I1).
type Attempt struct {
	N         int
	Entry     event.Entry
	Outcome   AttemptOutcome
	Class     event.Class
	Detail    string
	RequestID string
	Usage     event.Usage
	Started   *event.AttemptStarted // nil until it is opened
	DelayMS   int64                 // of its command
	In        uint64                // input sequence of its first command: the history to send
	Unsent    bool                  // opened, but no request was made

	next     int    // ord of the next event of the stream
	last     uint64 // sequence of the latest event of this attempt
	reissued int    // commands issued again
	pieces   []piece
	slots    []*slot
	textLen  int  // bytes of answer text shown
	bulk     int  // the same, as JSON spells them
	cut      bool // by its output limit
}

// piece is a part of a reply, in the order in which it was opened.
type piece struct {
	text   []byte
	opaque *event.OpaqueBlock
	call   int // place in slots, when neither text nor opaque is set
}

// slot accumulates one call of an attempt.
type slot struct {
	id, name, opaque string
	args             []byte
	bulk             int // bytes of args, as JSON spells them
}

func (a *Attempt) open() bool { return a.Started != nil && a.Outcome == "" }

func (a *Attempt) text() string {
	out := make([]byte, 0, a.textLen)
	for _, p := range a.pieces {
		out = append(out, p.text...)
	}
	return string(out)
}

// Call is a tool use of a committed step.
type Call struct {
	ID         string // "<step>.<index>"
	Index      int
	Tool       string
	Args       string // as it came
	ProviderID string // a label
	Opaque     string
	Key        string
	Scope      string // what the key's effect is unique within

	// Outcome, ErrorClass, Result and Replayed are what is known now.
	Outcome    event.Outcome
	ErrorClass string
	Result     string
	Replayed   bool
	// ApprovedBy says who let it run; ResolvedBy who decided or found out how it ended,
	// if that was not its run, and Why what they said.
	ApprovedBy, ResolvedBy, Why string
	// Doubted: its outcome has been unknown, if it is not still.
	Doubted bool
	// Told is the result that the model was or will be told. A later resolution changes
	// what is known, never what was said (design of I11).
	Told string
	// Terminal: with this call the loop breaker spoke.
	Terminal bool

	canonical string // whole canonical arguments
	identity  string // canonical identity
	ordinal   int
	leader    *Call  // an equal call of the same step, whose outcome is shared
	parked    bool   // waits for an approval
	parkedMS  int64  // since when, by the log's clock; 0 = unknown
	last      uint64 // sequence of the latest event of this call
	reissued  int
}

// Settled reports whether the call has an outcome, known or not.
func (c *Call) Settled() bool { return c.Outcome != "" }

// Follows reports whether the call shares the command and outcome of an equal one.
func (c *Call) Follows() bool { return c.leader != nil }

// Over reports whether the turn has ended for renderers. An ended turn that has a
// message stays open until the message is stored.
func (s *State) Over() bool {
	return s.Status == Completed || s.Status == Failed || s.Status == Erased
}

// Done reports whether the turn has written its last output.
func (s *State) Done() bool {
	return s.Status == Failed || s.Status == Erased || s.Status == Completed && s.MessageID != ""
}

// Text is the answer so far: the texts of committed and salvaged steps, joined.
func (s *State) Text() string {
	var out []byte
	for _, st := range s.Steps {
		out = append(out, st.Text...)
	}
	return string(out)
}

func (s *State) step() *Step {
	if len(s.Steps) == 0 {
		return nil
	}
	return s.Steps[len(s.Steps)-1]
}

// attempt is the latest attempt, whatever its state.
func (s *State) attempt() *Attempt {
	st := s.step()
	if st == nil || len(st.Attempts) == 0 {
		return nil
	}
	return st.Attempts[len(st.Attempts)-1]
}

func (s *State) tool(name string) (event.Tool, bool) {
	for _, t := range s.Opened.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return event.Tool{}, false
}

// Call finds a call of a committed step by its id, or nil.
func (s *State) Call(id string) *Call {
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.ID == id {
				return c
			}
		}
	}
	return nil
}
