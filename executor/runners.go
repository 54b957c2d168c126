package executor

import (
	"io"

	"github.com/turnfold/turnfold/executor/tool"
)

// makeRunners makes what the configuration does not bring.
func (x *Executor) makeRunners() error {
	verifiers, err := tool.NewVerifiers(x.cfg.Tools, x.cfg.RunnerConfig)
	if err != nil {
		return err
	}
	x.verifiers = verifiers
	for _, v := range verifiers {
		x.owned = append(x.owned, v)
	}
	if x.cfg.Runners != nil {
		return nil
	}
	runners, err := tool.NewRunners(x.cfg.Tools, x.cfg.RunnerConfig)
	if err != nil {
		return err
	}
	x.cfg.Runners = runners
	for _, r := range runners {
		if c, ok := r.(io.Closer); ok {
			x.owned = append(x.owned, c)
		}
	}
	return nil
}

// toolLimit is how many runs of a tool this executor has at a time; 0 = no limit.
func (x *Executor) toolLimit(name string) int {
	if d, ok := x.cfg.Tools.Get(name); ok {
		return d.Concurrency
	}
	return 0
}

func (x *Executor) outboxSize() (int, error) {
	reports, err := x.cfg.Store.Outbox()
	return len(reports), err
}
