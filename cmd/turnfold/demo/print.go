package demo

import (
	"fmt"
	"io"
	"strings"
)

// Print renders the report for people.
func (r Report) Print(w io.Writer) {
	if len(r.Policies) > 0 {
		fmt.Fprintf(w, "\nOne broken turn, three ways to handle it\n")
		fmt.Fprintf(w, "The model's stream breaks after a complete refund call; asked again, it words\neverything a little differently and gives the call another id.\n\n")
		for _, p := range r.Policies {
			p.print(w)
		}
	}
	if k := r.Kill; k != nil {
		fmt.Fprintf(w, "\nKilled between payment and record\n")
		fmt.Fprintf(w, "  kill -9 while the payments tool had paid and not yet answered, then a restart:\n")
		fmt.Fprintf(w, "  %d requests reached the tool under one key, %d refund was made, %d duplicates\n", k.Sent, k.Refunds, k.DuplicateEffects)
		fmt.Fprintf(w, "  key   %s\n", k.Key)
	}
	if l := r.Loop; l != nil {
		fmt.Fprintf(w, "\nFourteen tickets\n")
		fmt.Fprintf(w, "  A tool commits, and answers after its client has given up; the model words the\n  summary anew and asks again.\n")
		fmt.Fprintf(w, "  naive     %2d tickets\n", l.NaiveTickets)
		fmt.Fprintf(w, "  turnfold  %2d ticket, %d calls sent, then a request without tools: %v\n", l.Tickets, l.CallsSent, l.ToolsOff)
		fmt.Fprintf(w, "  answer    %q\n", l.Text)
	}
	if r.show != "" {
		fmt.Fprintf(w, "\n%s", r.show)
	}
	fmt.Fprintf(w, "\naudit of every turn above: %s\n", r.Audit)
	if r.Folder != "" {
		fmt.Fprintf(w, "kept: %s\n", r.Folder)
	}
	fmt.Fprintln(w, "next: turnfold config print > turnfold.yaml, name your provider there, then turnfold serve")
}

func (p Policy) print(w io.Writer) {
	clean := "spliced"
	if p.Clean {
		clean = "clean"
	}
	fmt.Fprintf(w, "  %-11s text %s, %d refund%s\n", p.Name, clean, p.Refunds, plural(p.Refunds))
	fmt.Fprintf(w, "    the user sees  %q\n", p.Text)
	fmt.Fprintf(w, "    ran            ids %s, keys %s\n", strings.Join(p.IDs, " "), strings.Join(p.Keys, " "))
	var spent []string
	for _, a := range p.Attempts {
		spent = append(spent, fmt.Sprintf("%d (%s)", a.Output, a.End))
	}
	fmt.Fprintf(w, "    output tokens  %s\n\n", strings.Join(spent, " + "))
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
