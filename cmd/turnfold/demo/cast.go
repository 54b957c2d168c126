package demo

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

const (
	// ticketTimeout is the client's patience of the story's 30 s, scaled down;
	// ticketAnswer is when the ticket tool answers: always a little later (34 s).
	ticketTimeout = 300 * time.Millisecond
	ticketAnswer  = 340 * time.Millisecond
)

func newPayments() *stage.Ledger { return stage.NewLedger(`{"refund":"RF-1"}`, 20*time.Millisecond) }

// newTickets opens tickets, and takes longer to say so than its clients wait.
func newTickets() *stage.Ledger { return stage.NewLedger(`{"ticket":"T-1"}`, ticketAnswer) }

// helpDesk is the model of the refund story: its first reply breaks after a complete
// call, in the middle of a sentence; its second words everything a little differently.
type helpDesk struct{ *stage.Model }

func newHelpDesk() *helpDesk {
	var mu sync.Mutex
	tries := 0
	return &helpDesk{stage.NewModel(func(_ int, r stage.Request, w *stage.Reply) {
		if r.Answered() {
			w.Text("Order " + order + " is refunded.")
			w.Finish()
			return
		}
		mu.Lock()
		tries++
		first := tries == 1
		mu.Unlock()
		if first {
			w.Text("I am sorry about your order. ")
			w.Call("c1", "issue_refund", `{"order_id":"`+order+`","amount":4900,"note":"damaged"}`)
			w.Text("Refunding the dam")
			w.Break()
			return
		}
		w.Text("Sorry about your order! ")
		w.Call("c7", "issue_refund", `{"note": "arrived damaged", "amount": 4900, "order_id": "`+order+`"}`)
		w.Text("I am refunding it now. ")
		w.Finish()
	})}
}

// ticketBot is the model of the fourteen tickets: after each timeout it words the
// summary anew and asks again, until it is offered no tools.
type ticketBot struct {
	*stage.Model
	mu  sync.Mutex
	off bool
}

// rewordings is how often the model of the story asked.
const rewordings = 14

func newTicketBot() *ticketBot {
	b := &ticketBot{}
	b.Model = stage.NewModel(func(n int, r stage.Request, w *stage.Reply) {
		if !r.OffersTools() {
			b.mu.Lock()
			b.off = true
			b.mu.Unlock()
			w.Text("I have asked for a ticket; it is being confirmed. ")
			w.Finish()
			return
		}
		if n > rewordings {
			w.Text("I could not open a ticket, sorry. ")
			w.Finish()
			return
		}
		args, _ := json.Marshal(map[string]string{"customer": "cu-77", "order": "ORD-1180",
			"summary": fmt.Sprintf("helmet missing, wording %d", n)})
		w.Call(fmt.Sprintf("t%d", n), "create_ticket", string(args))
		w.Finish()
	})
	return b
}

func (b *ticketBot) toolsOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.off
}
