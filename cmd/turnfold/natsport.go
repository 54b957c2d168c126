package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/subjects/jet"
)

// natsPort lets tools ask NATS services over one of our connections.
type natsPort struct{ conn *jet.Conn }

// Request implements tool.Requester.
func (p natsPort) Request(ctx context.Context, subject string, header map[string]string, data []byte) (tool.Reply, error) {
	m, err := p.conn.Ask(ctx, subject, header, data)
	switch {
	case errors.Is(err, jet.ErrNobody):
		err = fmt.Errorf("%w: %w", tool.ErrNoResponders, err)
	case errors.Is(err, jet.ErrNotSent):
		err = fmt.Errorf("%w: %w", tool.ErrNotSent, err)
	}
	return tool.Reply{Header: m.Header, Data: m.Data}, err
}

// ownNATSPort is a connection that a tool asks for in its declaration.
type ownNATSPort struct{ natsPort }

// Close ends the connection with its tool.
func (p ownNATSPort) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.conn.Close(ctx)
}

func dialNATS(log zerolog.Logger) func(url, creds string) (tool.Requester, error) {
	return func(url, creds string) (tool.Requester, error) {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		conn, err := jet.Connect(ctx, jet.Config{URL: url, CredsFile: creds, Name: "turnfold-tool", Log: log})
		if err != nil {
			return nil, err
		}
		return ownNATSPort{natsPort{conn}}, nil
	}
}
