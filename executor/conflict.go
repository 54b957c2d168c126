package executor

import "github.com/turnfold/turnfold/subjects/effect"

// keyConflict is what the model is told then.
const keyConflict = "The key of this effect belongs to another effect. This is a fault of the deployment; tell the user that it was not done."

// conflict reports that the call's key was claimed for another identity than the call's.
// Equal keys of unequal meanings cannot come from one fold: a log was mixed up or tampered
// with, or a hash has collided. To replay would pass another effect off as this one, and
// to run would use a key that the target knows as another, so neither is done.
func (p *performer) conflict(j *job, v effect.View) bool {
	if j.cmd == nil || j.cmd.Identity == "" || ownClaims(v, j.name) > 0 {
		return false
	}
	for _, t := range v.Tokens {
		if t.Identity == "" || t.Identity == j.cmd.Identity {
			continue
		}
		p.metrics.conflicts.Inc()
		p.logger.Error().Str("call", j.name).Str("tool", j.tool()).Str("key", j.key).Str("claimed_for", t.Call).
			Msg("the key of this call stands for another identity; the call is refused")
		return true
	}
	return false
}
