package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Names of what a deployment keeps beside its streams.
const (
	BucketOpenTurns = "TF_OPEN"     // KV: turns that have not written their last output
	BucketUnknown   = "TF_UNKNOWN"  // KV: calls of ended turns whose outcome is unknown
	BucketLeases    = "TF_LEASES"   // KV: who works on a partition
	BucketMembers   = "TF_MEMBERS"  // KV: which processes are alive
	BucketMessages  = "TF_MESSAGES" // KV: finished messages
	BucketErasures  = "TF_ERASURES" // KV: turns whose content is taken away, and who has done so
	BucketBlobs     = "TF_BLOBS"    // object store: payloads too large for a message
)

// BlobBytesMin is the payload size from which content goes to BucketBlobs and is
// referenced by digest. Half of the server's default message limit of 1 MiB.
const BlobBytesMin = 512 << 10

// Layout is what is fixed when a deployment is created.
type Layout struct {
	Partitions int // fixed for ever: another number would look for every turn elsewhere
	Replicas   int // 1 or 3
	// Ages after which the server drops messages; zero keeps them. Effects must
	// outlive outputs by a day, outputs events by a day (docs/architecture.md, "Ages").
	EventsAge, OutputsAge, EffectsAge time.Duration
}

// partitionsMax bounds streams per server; each partition is three of them.
const partitionsMax = 256

// Validate reports every fault at once.
func (l Layout) Validate() error {
	var errs []error
	if l.Partitions < 1 || l.Partitions > partitionsMax {
		errs = append(errs, fmt.Errorf("partitions is %d; it must be 1 to %d", l.Partitions, partitionsMax))
	}
	if l.Replicas != 1 && l.Replicas != 3 && l.Replicas != 5 {
		errs = append(errs, fmt.Errorf("replicas is %d; it must be 1, 3 or 5", l.Replicas))
	}
	outlives := func(a, b time.Duration) bool { return a == 0 || b != 0 && a >= b+24*time.Hour }
	if !outlives(l.OutputsAge, l.EventsAge) {
		errs = append(errs, fmt.Errorf("outputs are kept %s; they must outlive events (%s) by a day", l.OutputsAge, l.EventsAge))
	}
	if !outlives(l.EffectsAge, l.OutputsAge) {
		errs = append(errs, fmt.Errorf("effects are kept %s; they must outlive outputs (%s) by a day", l.EffectsAge, l.OutputsAge))
	}
	return errors.Join(errs...)
}

// Stream is one stream's configuration, free of any client library's types. Every
// stream has file storage, limits retention, direct gets, batch publishing,
// and refuses new messages when full. Deletes are possible, for the erase role alone
// (NATS permissions): only they overwrite what they take away.
type Stream struct {
	Name     string
	Subjects []string
	MaxAge   time.Duration
	Replicas int
	Metadata map[string]string
}

// MetadataPartitions is the stream metadata member that records Layout.Partitions,
// so that a process with another number is refused at start.
const MetadataPartitions = "turnfold-partitions"

// EventsStream, OutputsStream and EffectsStream name a partition's three streams.
func EventsStream(p int) string { return "TF_EV_" + strconv.Itoa(p) }

// OutputsStream names the stream of a partition's outputs.
func OutputsStream(p int) string { return "TF_OUT_" + strconv.Itoa(p) }

// EffectsStream names the stream of a key partition's facts.
func EffectsStream(p int) string { return "TF_FX_" + strconv.Itoa(p) }

// Streams lists the three streams of every partition.
func (l Layout) Streams() []Stream {
	meta := map[string]string{MetadataPartitions: strconv.Itoa(l.Partitions)}
	out := make([]Stream, 0, 3*l.Partitions)
	for p := range l.Partitions {
		n := strconv.Itoa(p)
		out = append(out,
			Stream{EventsStream(p), []string{"tf.ev." + n + ".>"}, l.EventsAge, l.Replicas, meta},
			Stream{OutputsStream(p), []string{"tf.out." + n + ".>"}, l.OutputsAge, l.Replicas, meta},
			Stream{EffectsStream(p), []string{"tf.fx." + n + ".>"}, l.EffectsAge, l.Replicas, meta})
	}
	return out
}
