package browser

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// A page that uses useChat of @ai-sdk/react ends with exactly the winner's text: over a
// connection that holds, over one that is cut amid it, and after it was loaded again; the
// tool was called once for each chat.
func TestUseChat(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(own.Close)
	w := newWorld(t, map[string]any{"cors_origins": own.URL})
	cutter := func(word string) string {
		c, err := stage.NewCutter(w.p.Base, word)
		must(t, err)
		t.Cleanup(c.Close)
		return c.Base()
	}
	var r struct {
		clean
		Results map[string]struct {
			Status, Finish, Saved, Text, Error string
			Messages, Resumed, Resets          int
			Calls                              []string
			Live, Glued                        bool
		}
	}
	drive(t, "chat", &r, own.URL, folder, winner, "step="+w.p.Base, "hold="+w.p.Base, "step-cut="+cutter("Sorry"), "hold-cut="+cutter("Sorry"), "step-reload="+w.p.Base)
	r.check(t)
	for _, name := range []string{"step", "hold", "step-cut", "hold-cut", "step-reload"} {
		got, reload := r.Results[name], strings.Contains(name, "reload")
		messages := 2
		if reload {
			messages = 1 // nobody told the page what had been asked
		}
		if got.Text != winner || got.Status != "ready" || got.Messages != messages || got.Glued || got.Error != "" || got.Saved == "" ||
			!slices.Equal(got.Calls, []string{"issue_refund output-available"}) {
			t.Errorf("%s ends with %+v", name, got)
		}
		// Whether abandoned text is seen on the way is for the speed of the machine to say.
		if strings.HasPrefix(name, "hold") && (got.Live || got.Resets > 0) || name == "step" && got.Resets != 1 {
			t.Errorf("%s: %d resets came, the abandoned text was shown: %v", name, got.Resets, got.Live)
		}
		if cut := strings.HasSuffix(name, "-cut"); cut && got.Resumed == 0 {
			t.Errorf("%s: the cut was not noticed", name)
		}
	}
	if n := w.refunds.Effects(); n != 5 {
		t.Errorf("%d refunds were made for 5 chats", n)
	}
}
