package executor

import "github.com/turnfold/turnfold/keystore"

// fresh takes a fresh call's key for one without facts, if this host knows of none: the
// compare-and-set of its claim proves that, and a claim that fails is followed by a look.
// So most calls never ask the log. A command that was delivered before is looked at,
// because another host may have claimed for the very same call.
func (p *performer) fresh(j *job, seen keystore.Glance, fit bool) bool {
	if seen.Known || j.tried || j.redelivered || !fit || j.cmd == nil || j.isWithdrawn() {
		return false
	}
	j.alone = true
	return true
}
