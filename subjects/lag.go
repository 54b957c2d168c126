package subjects

import "strconv"

// Lag is what the owner of a partition tells while its fold is late, several times a
// second (core NATS: nothing is stored, nothing waits for it). Streamers write fewer and
// larger events meanwhile.
type Lag struct {
	V  int   `json:"v"`
	MS int64 `json:"lag_ms"` // how long an event that is stored now waits for the fold; 0: not any more
}

// LagSubject is where a partition's owner tells its Lag.
func LagSubject(p int) string { return "tf.lag." + strconv.Itoa(p) }
