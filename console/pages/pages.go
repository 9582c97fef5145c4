// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

//go:embed templates assets
var files embed.FS

// templates have one set for each page, with the layout.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	layout := template.Must(template.ParseFS(files, "templates/layout.html"))
	for _, name := range []string{"search", "counts", "object", "compare", "services", "explain", "saved", "error"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}()

// console serves the pages.
type console struct {
	hub *searchclient.Client
	// pictures are those of services. Without an instance, they are the views of the aggregator that answers.
	pictures interface {
		Next(ctx context.Context, known int64) (*live.Picture, error)
	}
	instance bool
	owners   owners
	signOut  bool

	// session ends with the pages.
	session context.Context

	mu     sync.Mutex
	reader string

	// looks are the places of sessions that look for parts.
	looks *access.Places

	// partsMu guards what follows.
	partsMu    sync.Mutex
	knownParts []query.Part
	// partsUntil is when they are looked for again, unless partsBusy says that this happens now. partsPause is the time between failures.
	partsUntil time.Time
	partsBusy  bool
	partsPause time.Duration
}

// Options are what pages have besides search.
type Options struct {
	// Instance observes the instance on this machine. It is nil for any other cluster, which is observed with the credentials of the client.
	Instance live.Instance
	// Room bounds the followers of several sessions, each of a user. Without it, the pages are all that the console has.
	Room *live.Room
	User string
	// Looks bound how many sessions look at once for what completes searches, which goes on when a page has been sent. Without them, the pages
	// are all that the console has.
	Looks *access.Places
	// SignOut is whether pages have a form that ends the session.
	SignOut bool
}

// Pages are those of one user, or of one session of a team's user.
type Pages struct {
	http.Handler
	// End ends what goes on between pages: what follows services, and what looks for the parts of searches.
	End func()
}

// Renews returns whether a request is of the script that renews a page, and of no person.
func Renews(req *http.Request) bool { return req.URL.Path == livePath }

// New returns the pages.
func New(client *searchclient.Client, options Options) *Pages {
	session, end := context.WithCancel(context.Background())
	if options.Looks == nil {
		options.Looks = access.NewPlaces(1, 0)
	}
	c, mux := &console{hub: client, signOut: options.SignOut, session: session, looks: options.Looks}, http.NewServeMux()
	all := &Pages{Handler: mux, End: end}
	if c.instance = options.Instance != nil; c.instance {
		c.pictures = live.New(options.Instance)
	} else {
		if options.Room == nil {
			options.Room = live.NewRoom(1, 1)
		}
		followed := live.NewSession(live.NewAggregator(client), options.Room, options.User)
		c.pictures, all.End = followed, func() { end(); followed.End() }
	}
	mux.HandleFunc("/{$}", c.page("search", c.search))
	mux.HandleFunc("/object", c.page("object", c.object))
	mux.HandleFunc("/compare", c.page("compare", c.compare))
	mux.HandleFunc("/explain", c.page("explain", c.explain))
	mux.HandleFunc("/saved", c.page("saved", c.saved))
	mux.HandleFunc("/services", c.page("services", c.showServices))
	mux.HandleFunc(livePath, c.page("services", c.showServices))
	mux.HandleFunc("/results.csv", c.exportCSV)
	mux.HandleFunc("/results.json", c.exportJSON)
	for path, asset := range Assets() {
		mux.Handle(path, asset)
	}
	return all
}

// Assets returns the style sheet, the icon and the script of one page by their paths. They are the same for all readers.
func Assets() map[string]http.Handler {
	all := map[string]http.Handler{}
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, name := range []string{"console.css", "icon.svg", "services.js"} {
		all["/"+name] = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Cache-Control", "private, max-age=3600")
			http.ServeFileFS(w, req, assets, name)
		})
	}
	return all
}

// livePath has the part of the page of services that its script renews.
const livePath = "/services/live"

// scriptPolicy is that of the one page with a script. The script cannot write HTML, or anything else that a browser could run.
const scriptPolicy = access.Policy + "; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

// layout is what all pages have.
type layout struct {
	Title string
	// Server is the address of the API server, and Reader the caller.
	Server, Reader string
	// SignOut is whether the console has sessions that end.
	SignOut bool
	// Text is that of the search box, and Options complete it.
	Text    string
	Options []string
	// labels are parts for the labels of objects on the page.
	labels []query.Part
}

func (l *layout) base() *layout { return l }

// model is that of a page.
type model interface{ base() *layout }

// failure is the model of a page that cannot be shown.
type failure struct {
	layout
	Code    int
	Message string
}

// badRequest is an error in the parameters of a page.
type badRequest struct{ error }

func (c *console) page(name string, fill func(*http.Request) (model, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		code := http.StatusOK
		m, err := fill(req)
		if errors.Is(err, errUnchanged) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if err != nil {
			code = codeOf(err)
			m, name := model(&failure{layout: layout{Title: "Error"}, Code: code, Message: err.Error()}), "error"
			c.render(w, req, name, code, m)
			return
		}
		as := name
		if _, counted := m.(*countsPage); counted {
			as = "counts"
		}
		c.render(w, req, as, code, m)
	}
}

func codeOf(err error) int {
	if answered := (*searchclient.Error)(nil); errors.As(err, &answered) {
		return answered.Code
	}
	if errors.As(err, &badRequest{}) {
		return http.StatusBadRequest
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest { // of discovery
		return int(status.Status().Code)
	}
	return http.StatusBadGateway
}

func (c *console) render(w http.ResponseWriter, req *http.Request, name string, code int, m model) {
	l := m.base()
	l.Server, l.Reader, l.SignOut = c.hub.Server(), c.whoReads(req), c.signOut
	if l.Text == "" {
		l.Text = req.URL.Query().Get("q")
	}
	from := "layout.html"
	if _, isServices := m.(*servicesPage); isServices {
		w.Header().Set("Content-Security-Policy", scriptPolicy)
		if req.URL.Path == livePath {
			from = "live"
		}
	}
	if from != "live" {
		l.Options = c.options(req.Context(), l.Text, l.labels)
	}
	var text bytes.Buffer
	if err := templates[name].ExecuteTemplate(&text, from, m); err != nil {
		http.Error(w, "The page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write([]byte(visible(text.String()))) //nolint:errcheck // the client is gone
}

// readerTimeout bounds how long a page waits for the name of its reader.
const readerTimeout = 3 * time.Second

// whoReads returns the name of the caller, or an empty one if the API server does not return it.
func (c *console) whoReads(req *http.Request) string {
	c.mu.Lock()
	reader := c.reader
	c.mu.Unlock()
	if reader != "" {
		return reader
	}
	ctx, cancel := context.WithTimeout(req.Context(), readerTimeout)
	defer cancel()
	reader, _ = c.hub.Reader(ctx) // the page works without it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader = reader
	return reader
}

// visible replaces characters that are not seen, or that change the order of others, by what they are. A name of a cluster could use them
// to look like another one.
func visible(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	from := 0
	for at, r := range text {
		if isVisible(r, text[at:]) {
			continue
		}
		out.WriteString(text[from:at])
		if r == utf8.RuneError { // bytes that are no character
			out.WriteRune(r)
			from = at + 1
			continue
		}
		fmt.Fprintf(&out, "[U+%04X]", r)
		from = at + utf8.RuneLen(r)
	}
	out.WriteString(text[from:])
	return out.String()
}

// isVisible returns whether the character at the begin of a text is seen as it is.
func isVisible(r rune, text string) bool {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return true
	case r == utf8.RuneError:
		return strings.HasPrefix(text, string(utf8.RuneError))
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
