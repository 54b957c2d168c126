package embed

import (
	"strings"

	"github.com/rs/zerolog"
)

// serverLog passes the server's warnings and errors on; its notices are of no use
// to a user of turnfold.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Noticef(string, ...any) {}
func (l serverLog) Debugf(string, ...any)  {}
func (l serverLog) Tracef(string, ...any)  {}

func (l serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return // ours is generated, lies in a file of mode 0600, and opens a loopback port
	}
	l.log.Warn().Msgf(strings.TrimSpace(format), v...)
}

func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error().Msgf(strings.TrimSpace(format), v...)
}

// Fatalf only logs: the process is ours to end, and Start reports the failure.
func (l serverLog) Fatalf(format string, v ...any) {
	l.log.Error().Msgf(strings.TrimSpace(format), v...)
}
