package embed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Addresses lie below the range that the kernel draws from for connections and for
// listeners without a port: one that was found free stays so until it is used, and a
// server that is stopped and started again finds its own.
const (
	portMin = 15_000
	portMax = 32_000
)

// lastPort starts anywhere, since several test processes draw at a time.
var lastPort atomic.Int64

func init() { lastPort.Store(rand.Int64N(portMax - portMin)) }

// FreeAddress is a loopback address that nobody listens on, and that this process does not
// give out again soon. For tests, whose processes must know each other's address before
// they start.
func FreeAddress() (string, error) {
	for range portMax - portMin {
		port := portMin + lastPort.Add(1)%(portMax-portMin)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("embed: no free port from %d to %d", portMin, portMax)
}
