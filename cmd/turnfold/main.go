// Command turnfold runs streamed LLM turns so that what the user reads and what the
// tools do is right, however often the model stream, a process, a host or the network
// breaks.
//
// Invariant: data goes to standard output, everything else to standard error, and the
// exit code says how it ended.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is the whole process but for its exit. The first signal asks it to end, the
// second ends it.
func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		s := <-signals
		cancel(signalled{s})
		<-signals
		os.Exit(exitInterrupted)
	}()
	root := newRoot()
	err := root.ExecuteContext(ctx)
	return exitOf(root, err, context.Cause(ctx))
}
