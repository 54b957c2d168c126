package executor

import (
	"context"

	"github.com/turnfold/turnfold/subjects"
)

// Perform brings one command to its outcome as if it had been delivered, while Run is
// at work: for whoever measures what an effect costs without the way of its command.
func (x *Executor) Perform(ctx context.Context, t subjects.Turn, command []byte) error {
	select {
	case <-x.working:
	case <-ctx.Done():
		return ctx.Err()
	}
	j, err := newJob(t, command)
	if err != nil {
		return err
	}
	if j = x.desk.take(x.stages.start, j, true); j == nil {
		return errStopped
	}
	defer j.leave()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
