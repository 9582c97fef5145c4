// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/services/list"
)

// maxShownChanges is how many changes the timeline lists. Its lanes have all.
const maxShownChanges = 60

// servicesPage is the model of the services of an instance on this machine, or of a cluster as one aggregator sees them.
type servicesPage struct {
	layout
	// Version is that of the picture, which the script sends back. Every is how many milliseconds the script waits until it asks again.
	Version string
	Every   int64
	At      string
	Failure string
	// Unseen is why the page has no picture.
	Unseen string
	// View is the aggregator whose view the page shows, if it is one, and AnswersSince when that has taken the place of another.
	View, AnswersSince string
	// Over is the number of seconds whose requests count, and Unshown that of replicas that the page leaves out.
	Over    float64
	Unshown int
	// News is the latest change, for those who do not see the picture.
	News string
	// Clients are the connections of clients, and Rate what aggregators send on.
	Clients, Rate string
	Flow          int
	Aggregators   *shownService
	// Middle are the services, each between aggregators and etcd. Etcds and Others are the other processes.
	Middle        []*shownService
	Etcds, Others []*shownService
	Services      []*shownService
	Differences   []string
	Lanes         []shownLane
	Changes       []shownChange
	LeftOff       int
	Since         string
	Owners        []shownOwner
	// OwnersNote is why there are none.
	OwnersNote string
}

// shownService are the replicas of a service.
type shownService struct {
	Name     string
	Ready    int
	Replicas []shownReplica
	Rate     string
	// Flow is from 0 to 4, by the number of requests.
	Flow int
	// One is whether the page knows one of several replicas only.
	One bool
}

type shownReplica struct {
	Name, State, Mark, Kind, Since, Why      string
	Rate, Share, InFlight, Watches, CPU, P99 string
	Memory, Age, Restarts, Version, Settings string
	Address, Message, Brief                  string
}

// shownLane is the states of a replica as boxes, in units of a second from the left.
type shownLane struct {
	Replica, Text string
	// Story names the latest states, for those who do not see the boxes.
	Story string
	Boxes []boxes
}

// boxes are those of a kind of states, as the path of a drawing.
type boxes struct{ Kind, Path string }

type shownChange struct{ At, Replica, Text string }

// unseenInterval is the time until a page without a picture asks for one again.
const unseenInterval = 10 * time.Second

// errUnchanged is returned if the page has the present picture already.
var errUnchanged = errors.New("the picture is the same")

// showServices shows the services as they are.
func (c *console) showServices(req *http.Request) (model, error) {
	known, _ := strconv.ParseInt(req.URL.Query().Get("after"), 10, 64) // another text is no version
	wait := known
	if !c.instance {
		wait = 0 // the script waits, because requests of a team that wait take the places of others
	}
	picture, err := c.pictures.Next(req.Context(), wait)
	var page *servicesPage
	switch {
	case err == nil && picture.Version == known:
		return nil, errUnchanged
	case err == nil:
		page = newServicesPage(picture, time.Now())
	case c.instance || req.Context().Err() != nil:
		return nil, err
	default:
		page = &servicesPage{layout: layout{Title: "Services"}, Unseen: sentence(err), Every: unseenInterval.Milliseconds()}
	}
	page.Owners, page.OwnersNote = c.owners.read(req.Context(), c.hub)
	return page, nil
}

// sentence returns an error as one.
func sentence(err error) string {
	text := live.Bounded(err.Error())
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}

// viewOf names the aggregator of a view.
func viewOf(v *live.View) string {
	name := "the aggregator that answers"
	if !v.Started.IsZero() {
		name = "the aggregator that started at " + v.Started.UTC().Format("2006-01-02 15:04:05.00") + " UTC"
	}
	if v.Version != "" {
		name += ", with version " + v.Version
	}
	return name
}

func newServicesPage(p *live.Picture, now time.Time) *servicesPage {
	page := &servicesPage{
		layout: layout{Title: "Services"}, Version: strconv.FormatInt(p.Version, 10), At: clock(p.At), Failure: p.Failure,
		Clients: whole(p.Connections), Rate: rateOf(p.Rate), Flow: flowOf(p.Rate), Differences: p.Differences, Since: clock(p.Since),
		Over: p.Over.Seconds(), Unshown: p.LeftOff,
	}
	if p.View != nil {
		page.View, page.Every = viewOf(p.View), p.Every.Milliseconds()
		if p.View.Others {
			page.AnswersSince = clock(p.View.Since)
		}
	}
	for i := range p.Services {
		s := showService(&p.Services[i], now)
		page.Services = append(page.Services, s)
		switch s.Name {
		case list.Aggregator:
			s.One, page.Aggregators = p.View != nil, s
		case names.Etcd:
			page.Etcds = append(page.Etcds, s)
		case names.Manager, names.Scheduler, names.Kwok:
			page.Others = append(page.Others, s)
		default:
			page.Middle = append(page.Middle, s)
		}
	}
	for _, lane := range p.Lanes {
		page.Lanes = append(page.Lanes, showLane(lane, p.At))
	}
	for i, change := range p.Changes {
		if i == maxShownChanges {
			page.LeftOff = len(p.Changes) - i
			break
		}
		page.Changes = append(page.Changes, shownChange{clock(change.At), change.Replica, change.Text})
	}
	if len(p.Changes) > 0 {
		page.News = p.Changes[0].Replica + ": " + p.Changes[0].Text
	}
	return page
}

func showService(s *live.Service, now time.Time) *shownService {
	shown := &shownService{Name: s.Name, Ready: s.Serving, Rate: rateOf(s.Rate), Flow: flowOf(s.Rate)}
	for i := range s.Replicas {
		shown.Replicas = append(shown.Replicas, showReplica(&s.Replicas[i], now))
	}
	return shown
}

// marks stand before states, so that these differ without colours.
var marks = map[live.Kind]string{live.Good: "✓", live.Reserved: "…", live.Bad: "✗"}

func showReplica(r *live.Replica, now time.Time) shownReplica {
	s := shownReplica{
		Name: r.Name, State: string(r.State), Mark: marks[r.State.Kind()], Kind: string(r.State.Kind()), Why: r.Why,
		Rate: rateOf(r.Rate), InFlight: whole(r.InFlight), Watches: whole(r.Watches), Version: r.Version, Address: r.Address,
		Age: ageOf(r.Started), Since: sinceOf(r.Since, now), P99: seconds(r.P99),
	}
	if r.Share.Known {
		s.Share = fmt.Sprintf("%.0f%%", 100*r.Share.Value)
	}
	if r.CPU.Known {
		s.CPU = fmt.Sprintf("%.0f%%", 100*r.CPU.Value)
	}
	if r.Memory.Known {
		s.Memory = fmt.Sprintf("%.0f MiB", r.Memory.Value/(1<<20))
	}
	if r.Restarts >= 0 {
		s.Restarts = strconv.Itoa(r.Restarts)
	}
	if r.Differs {
		s.Settings = "differ"
	}
	s.Brief = s.brief()
	return s
}

// brief returns the numbers that a replica has in the picture.
func (s *shownReplica) brief() string {
	var parts []string
	for _, part := range [][2]string{
		{s.Rate, ""}, {s.Share, ""}, {s.InFlight, " in flight"}, {s.Watches, " watches"}, {s.CPU, " CPU"}, {s.Memory, ""},
	} {
		if part[0] != "" {
			parts = append(parts, part[0]+part[1])
		}
	}
	return strings.Join(parts, " · ")
}

// maxStory is how many states the story of a lane has.
const maxStory = 20

// places are the top and the height of boxes, so that states differ without colours.
var places = map[live.Kind][2]int{live.Good: {5, 2}, live.Reserved: {2, 8}, live.Bad: {0, 12}}

// showLane turns states into boxes. Their places are multiples of some seconds, so that most of them stay between two pictures.
func showLane(lane live.Lane, now time.Time) shownLane {
	const step = 5
	width := int(live.Covers / time.Second)
	place := func(t time.Time) int { return max(0, width-int(now.Sub(t).Seconds())/step*step) }
	shown := shownLane{Replica: lane.Replica}
	paths := map[live.Kind]*strings.Builder{}
	var story []string
	for i, span := range lane.Spans {
		end := width
		if i+1 < len(lane.Spans) {
			end = place(lane.Spans[i+1].From)
		}
		x, kind := min(place(span.From), width-step), span.State.Kind()
		if paths[kind] == nil {
			paths[kind] = &strings.Builder{}
		}
		// A state of a moment can be seen, too.
		wide := max(end-x, step)
		fmt.Fprintf(paths[kind], "M%d %dh%dv%dh-%dz", x, places[kind][0], wide, places[kind][1], wide)
		switch {
		case i < len(lane.Spans)-maxStory:
		case x == 0:
			story = append(story, string(span.State)+" at the begin")
		default:
			story = append(story, string(span.State)+" from "+clock(span.From))
		}
	}
	for _, kind := range []live.Kind{live.Good, live.Reserved, live.Bad} {
		if path := paths[kind]; path != nil {
			shown.Boxes = append(shown.Boxes, boxes{string(kind), path.String()})
		}
	}
	shown.Story = strings.Join(story, ", ")
	if n := len(lane.Spans); n > 0 {
		shown.Text = string(lane.Spans[n-1].State)
		if n > 1 {
			shown.Text += " since " + clock(lane.Spans[n-1].From)
		}
	}
	return shown
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// sinceOf returns how long a state lasts, as far as the timeline goes back.
func sinceOf(since, now time.Time) string {
	switch age := now.Sub(since); {
	case since.IsZero():
		return ""
	case age >= live.Covers-time.Second:
		return "over " + Duration(live.Covers).String()
	default:
		return ageOf(since)
	}
}

func whole(n live.Number) string {
	if !n.Known {
		return ""
	}
	return strconv.FormatFloat(n.Value, 'f', 0, 64)
}

func rateOf(n live.Number) string {
	switch {
	case !n.Known:
		return ""
	case n.Value > 0 && n.Value < 10:
		return fmt.Sprintf("%.1f/s", n.Value)
	}
	return fmt.Sprintf("%.0f/s", n.Value)
}

// flowOf returns how thick a line for a number of requests per second is.
func flowOf(n live.Number) int {
	if n.Value <= 0 {
		return 0
	}
	return min(4, 1+max(0, int(math.Log10(n.Value))))
}

// seconds returns the bound of a bucket.
func seconds(n live.Number) string {
	switch {
	case !n.Known:
		return ""
	case math.IsInf(n.Value, 1):
		return "over 30 s"
	case n.Value < 1:
		return fmt.Sprintf("≤ %g ms", n.Value*1000)
	}
	return fmt.Sprintf("≤ %g s", n.Value)
}
