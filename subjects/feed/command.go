package feed

import "github.com/turnfold/turnfold/subjects"

type toStreamers struct{}

func (toStreamers) Lane() subjects.Lane { return subjects.LaneStep }

type toExecutors struct{}

func (toExecutors) Lane() subjects.Lane { return subjects.LaneCall }

// StepCommand asks for one attempt of a step. The history to send is the fold of the
// turn up to and including sequence In.
type StepCommand struct {
	toStreamers
	V        int    `json:"v"`
	In       uint64 `json:"in"`
	DelayMS  int64  `json:"delay_ms"` // wait so long after the command was stored
	Provider string `json:"provider"` // name in the configuration
	API      string `json:"api"`
	Model    string `json:"model"`
	// MaxOutputTokens is the output budget of this attempt; 0 leaves it to the provider.
	MaxOutputTokens int  `json:"max_output_tokens"`
	Tools           bool `json:"tools"` // false: the loop breaker has switched tools off
}

// Type is "step".
func (*StepCommand) Type() string { return "step" }

// StepWithdraw tells whoever runs an attempt to stop. It is a courtesy: the fold
// ignores what comes all the same.
type StepWithdraw struct {
	toStreamers
	V int `json:"v"`
}

// Type is "step_withdraw".
func (*StepWithdraw) Type() string { return "step_withdraw" }

// CallCommand asks for one effect. It is complete: an executor needs only its own
// runner for the tool.
type CallCommand struct {
	toExecutors
	V         int    `json:"v"`
	In        uint64 `json:"in"`
	Call      string `json:"call"`
	Tool      string `json:"tool"`
	Args      string `json:"args"` // the argument text as it came
	Key       string `json:"key"`
	Effect    string `json:"effect"` // read, keyed, once
	TimeoutMS int64  `json:"timeout_ms"`
	ID        string `json:"provider_id,omitzero"` // the provider's label, for display
	// Identity is a digest of the identity that Key stands for, so that a key which is
	// met with another one is noticed. Empty in turns of rules before 2.
	Identity string `json:"identity,omitzero"`
}

// Type is "call".
func (*CallCommand) Type() string { return "call" }

// CallWithdraw asks that a call that has not begun never begins.
type CallWithdraw struct {
	toExecutors
	V    int    `json:"v"`
	Call string `json:"call"`
	Key  string `json:"key"`
}

// Type is "call_withdraw".
func (*CallWithdraw) Type() string { return "call_withdraw" }
