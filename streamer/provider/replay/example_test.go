package replay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// A provider whose first answer ends cleanly after one event, and whose second is whole.
func Example() {
	answer := replay.Body("answer", []byte("data: one\n\ndata: two\n\n"))
	server, err := replay.New(replay.Config{Pick: replay.InOrder(
		replay.Play{Recording: answer, Fault: replay.Fault{Cut: replay.AfterEvent(1), End: replay.EndEOF}},
		replay.Play{Recording: answer},
	)})
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx, ln) }()
	for range 2 {
		res, err := http.Post("http://"+ln.Addr().String()+"/v1/chat/completions", "application/json", nil)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(res.Body)
		fmt.Printf("%q %v\n", body, err)
		res.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(<-ended, server.Requests(), "requests")
	// Output:
	// "data: one\n\n" <nil>
	// "data: one\n\ndata: two\n\n" <nil>
	// <nil> 2 requests
}
