package jet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnfold/turnfold/subjects"
)

// differences says what of a stream is not as it must be. What the operator may choose
// freely, such as placement, compression or a size limit, is not looked at.
func differences(want, have jetstream.StreamConfig) []string {
	var out []string
	name := want.Name
	differ := func(what string, want, have any) {
		if w, h := fmt.Sprint(want), fmt.Sprint(have); w != h {
			out = append(out, fmt.Sprintf("%s has %s %s, not %s", name, what, h, w))
		}
	}
	const key = subjects.MetadataPartitions
	differ("subjects", strings.Join(want.Subjects, " "), strings.Join(slices.Sorted(slices.Values(have.Subjects)), " "))
	differ("retention", want.Retention, have.Retention)
	differ("storage", want.Storage, have.Storage)
	differ("discard", want.Discard, have.Discard)
	differ("max_age", want.MaxAge, have.MaxAge)
	differ("replicas", want.Replicas, have.Replicas)
	differ("max_msgs_per_subject", perSubject(want), perSubject(have))
	if have.Metadata[metadataRestoring] != "" {
		out = append(out, name+" is being restored, or that was interrupted: run turnfold restore again")
	}
	differ("metadata "+key, orNone(want.Metadata[key]), orNone(have.Metadata[key]))
	// deny_delete is not looked at: streams that once were made with it keep it for ever,
	// and Erase says what it leaves there.
	differ("allow_direct", want.AllowDirect, have.AllowDirect)
	differ("allow_batched", want.AllowBatchPublish, have.AllowBatchPublish)
	differ("allow_msg_ttl", want.AllowMsgTTL, have.AllowMsgTTL)
	return out
}

// perSubject: the server writes none as -1.
func perSubject(c jetstream.StreamConfig) int64 { return max(c.MaxMsgsPerSubject, 0) }
