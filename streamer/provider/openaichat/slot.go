package openaichat

import (
	"bytes"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
)

// slot is one call of the reply. Its place in the order of opening identifies it.
type slot struct {
	index    int64
	hasIndex bool
	id, name string
	extra    bool
	args     []byte
	text     provider.Joiner // of args
}

// place finds the slot of an entry, or opens one; -1 means that the entry says nothing.
// Servers leave the index out, use one for all calls, repeat id and name with each
// fragment, or give one id to all calls. The rule: a new index opens; so does another id
// together with a name; without an index, an id with a name opens unless it repeats the
// last slot's. All other entries go on with the slot of their index, or else the last.
func (d *decoder) place(e *entry, id, name string) int {
	at := len(d.slots) - 1
	if e.hasIndex {
		for at >= 0 && !(d.slots[at].hasIndex && d.slots[at].index == e.index) {
			at--
		}
		// A call opened without index may get it later.
		if last := len(d.slots) - 1; at < 0 && last >= 0 && !d.slots[last].hasIndex && name == "" && (id == "" || id == d.slots[last].id) {
			at = last
			d.slots[at].index, d.slots[at].hasIndex = e.index, true
		}
	}
	if at < 0 {
		if id == "" && name == "" && e.args == nil {
			return -1
		}
		return d.open(e)
	}
	if name != "" && d.slots[at].another(e, id, name) {
		return d.open(e)
	}
	return at
}

// another reports whether an entry with a name cannot be a continuation of s.
func (s *slot) another(e *entry, id, name string) bool {
	if id != "" && s.id != "" && id != s.id {
		return true
	}
	if s.name == "" {
		return false // a late name
	}
	if name != s.name && (!e.hasIndex || id != "" && s.id == "") {
		return true
	}
	// The same call by all its labels. But nothing can follow a complete object: what
	// brings more is another call of that tool.
	return !blank(e.args) && s.complete()
}

func (d *decoder) open(e *entry) int {
	d.slots = append(d.slots, slot{index: e.index, hasIndex: e.hasIndex})
	return len(d.slots) - 1
}

// complete reports whether the arguments are a whole object so far. The cheap look
// comes first, since servers that repeat names ask this with every fragment.
func (s *slot) complete() bool {
	args := bytes.TrimRight(s.args, " \t\r\n")
	return len(args) > 0 && args[len(args)-1] == '}' && provider.CheckArguments(string(args)) == nil
}

func blank(args []byte) bool {
	if len(args) > 0 && args[0] == '"' {
		args = provider.Unquote(nil, args)
	}
	return strings.Trim(string(args), " \t\r\n") == ""
}
