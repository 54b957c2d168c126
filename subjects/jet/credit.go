package jet

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// creditMsgs and creditBytes are what the server may send on one request. There are
	// two requests at most, so this is what waits for a slow reader: a push consumer lets
	// tens of megabytes of a stream wait, which take several times that in memory. It is
	// enough for a server that is some milliseconds away.
	creditMsgs  = 4000
	creditBytes = 4 << 20

	// creditExpires is how long a request stands. Its consumer gives signs of life while
	// it does.
	creditExpires = 30 * time.Second
)

// credit is how much of a stream a consumer may still send. It is given in requests, a
// next one when half of what was asked for has been handled.
type credit struct {
	c              *Conn
	subject, inbox string
	request        []byte
	owed           int // messages
}

// open turns to another consumer, which owes nothing yet.
func (r *credit) open(c *Conn, subject, inbox string) {
	r.c, r.subject, r.inbox, r.owed = c, subject, inbox, 0
	// A message that is larger than a request allows would never come.
	bytes := max(creditBytes, int(c.nc.MaxPayload())+64<<10)
	r.request, _ = json.Marshal(map[string]int64{"batch": creditMsgs, "max_bytes": int64(bytes),
		"expires": creditExpires.Nanoseconds(), "idle_heartbeat": tailHeartbeat.Nanoseconds()}) // numbers can be written
}

func (r *credit) grant() error {
	r.owed += creditMsgs
	return r.c.nc.PublishRequest(r.subject, r.inbox, r.request)
}

// used counts a message that is about to be handled.
func (r *credit) used() error {
	if r.owed--; r.owed < creditMsgs/2 {
		return r.grant()
	}
	return nil
}

// ended takes back what a request gave and the server has not used, because the request
// was full or has expired.
func (r *credit) ended(m *nats.Msg) error {
	switch m.Header.Get("Status") {
	case "408", "409":
	default:
		return errTailBroken
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil || left > r.owed {
		return errTailBroken // the consumer is gone, or it is not of this request
	}
	if r.owed -= left; r.owed < creditMsgs/2 {
		return r.grant()
	}
	return nil
}
