package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// pageDefault and pageMax are how many summaries one answer has.
	pageDefault = 50
	pageMax     = 200
	// doubtsMax is how many ended turns on the list of unknown effects are looked at for
	// one answer; for more of them the list's word is taken.
	doubtsMax = 200
)

// summaryList is the answer of GET /v1/turns?view=summary: a page of the turns that the
// filters let through, open ones first, each kind the latest first.
type summaryList struct {
	Tenant string     `json:"tenant"`
	Offset int        `json:"offset"`
	Total  int        `json:"total"` // turns that the filters let through
	Counts turnCounts `json:"counts"`
	Turns  []*summary `json:"turns"`
}

// turnCounts are of all the tenant's turns that the text filter lets through.
type turnCounts struct {
	All       int `json:"all"`
	Open      int `json:"open"`
	Waiting   int `json:"waiting"` // open, and a person is waited for
	Unknown   int `json:"unknown"` // has an effect whose outcome is unknown
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// listQuery is what a page asks for.
type listQuery struct {
	state, text   string
	offset, limit int
}

func readListQuery(q url.Values) (listQuery, error) {
	l := listQuery{state: cmp.Or(q.Get("state"), "all"), text: strings.ToLower(strings.TrimSpace(q.Get("q"))), limit: pageDefault}
	bad := func(field, detail string) (listQuery, error) {
		return l, fault{http.StatusUnprocessableEntity, field, detail}
	}
	if q.Get("view") != "summary" {
		return bad("view", "must be summary")
	}
	if !slices.Contains([]string{"all", "open", "waiting", "unknown", "completed", "failed"}, l.state) {
		return bad("state", "must be all, open, waiting, unknown, completed or failed")
	}
	var err error
	if text := q.Get("limit"); text != "" {
		if l.limit, err = strconv.Atoi(text); err != nil || l.limit < 1 || l.limit > pageMax {
			return bad("limit", fmt.Sprintf("must be 1 to %d", pageMax))
		}
	}
	if text := q.Get("offset"); text != "" {
		if l.offset, err = strconv.Atoi(text); err != nil || l.offset < 0 {
			return bad("offset", "must be a number from 0 on")
		}
	}
	return l, nil
}

func (g *Gateway) listSummaries(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := readListQuery(r.URL.Query())
	var out summaryList
	if err == nil {
		out, err = g.summaryPage(r.Context(), tenant, q)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, out)
}

func (g *Gateway) summaryPage(ctx context.Context, tenant string, q listQuery) (summaryList, error) {
	out := summaryList{Tenant: tenant, Offset: q.offset, Turns: []*summary{}}
	if err := g.directory.ready(ctx); err != nil {
		return out, err
	}
	all := g.everyTurn(tenant)
	if q.text != "" {
		all = slices.DeleteFunc(all, func(l listed) bool { return !strings.Contains(strings.ToLower(l.id), q.text) })
	}
	waiting, unknown, err := g.troubled(ctx, tenant, all)
	if err != nil {
		return out, err
	}
	var match []listed
	for _, l := range all {
		is := map[string]bool{"all": true, "open": !l.ended, "waiting": waiting[l.id], "unknown": unknown[l.id],
			"completed": l.ended && !l.failed, "failed": l.failed}
		if is[q.state] {
			match = append(match, l)
		}
		out.Counts.add(is)
	}
	out.Total = len(match)
	match = match[min(q.offset, len(match)):]
	out.Turns, err = g.summariseAll(ctx, tenant, match[:min(q.limit, len(match))])
	return out, err
}

func (c *turnCounts) add(is map[string]bool) {
	for _, one := range []struct {
		state string
		n     *int
	}{{"all", &c.All}, {"open", &c.Open}, {"waiting", &c.Waiting}, {"unknown", &c.Unknown}, {"completed", &c.Completed}, {"failed", &c.Failed}} {
		if is[one.state] {
			*one.n++
		}
	}
}

// everyTurn is the directory, and before it the turns that are stored and have no output
// yet: nobody owns their partition.
func (g *Gateway) everyTurn(tenant string) []listed {
	all := g.directory.of(tenant)
	have := make(map[string]bool, len(all))
	for _, l := range all {
		have[l.id] = true
	}
	var silent []listed
	for _, id := range g.door.opened(tenant) {
		if !have[id] {
			silent = append(silent, listed{id: id})
		}
	}
	slices.SortFunc(silent, func(a, b listed) int { return cmp.Compare(b.id, a.id) })
	return append(silent, all...)
}

// troubled finds the turns that wait for a person, and those with effects whose end
// nobody knows: of ended turns by the list that owners keep, of open ones by looking.
func (g *Gateway) troubled(ctx context.Context, tenant string, all []listed) (waiting, unknown map[string]bool, err error) {
	waiting, unknown = map[string]bool{}, map[string]bool{}
	noted, err := g.cfg.Turns.Unknown(ctx, tenant, "")
	if err != nil {
		return nil, nil, err
	}
	onList := make(map[string]bool, len(noted))
	for _, t := range noted {
		onList[t.ID] = true
	}
	ended := 0
	look := slices.DeleteFunc(slices.Clone(all), func(l listed) bool {
		if l.ended && onList[l.id] {
			unknown[l.id] = true
			ended++
			return ended > doubtsMax // the list is right but for a moment
		}
		return (l.ended || !l.doubt) && !onList[l.id]
	})
	list, err := g.summariseAll(ctx, tenant, look)
	for _, s := range list {
		waiting[s.Turn] = s.waits()
		unknown[s.Turn] = s.doubts()
	}
	return waiting, unknown, err
}
