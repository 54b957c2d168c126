package embed

import (
	"context"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// CheckFile reads a server's configuration file with the server's own parser.
func CheckFile(path string) error {
	_, err := options(path)
	return err
}

func options(path string) (*server.Options, error) {
	o := &server.Options{}
	if err := o.ProcessConfigFile(path); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return o, nil
}

// ServeFile runs a server by its configuration file until ctx ends, as the server's own
// program does: for tests whose servers are processes that can be killed.
func ServeFile(ctx context.Context, path string) error {
	o, err := options(path)
	if err != nil {
		return err
	}
	o.NoSigs = true
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	srv.ConfigureLogger()
	srv.Start()
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}
