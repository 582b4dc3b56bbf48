package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run serves one service until ctx is done. It returns 0 when asked to stop, 1 when it could not serve, 2 when it was
// called wrongly.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("bookinfo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	service := flags.String("service", "", "what to be: productpage, details, reviews or ratings")
	version := flags.String("version", "v1", "of the service: v1 or v2; reviews v2 shows ratings")
	listen := flags.String("listen", ":9080", "address to serve on")
	domain := flags.String("domain", "", "after the names of the other services, such as service.consul")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	up := newUpstream(http.ProxyFromEnvironment)
	up.domain = *domain
	handler, err := newService(*service, *version, up)
	if err != nil {
		fmt.Fprintln(stderr, "bookinfo:", err)
		return 2
	}
	log := slog.New(slog.NewTextHandler(stderr, nil)).With("service", *service, "version", *version)
	if err := serve(ctx, *listen, handler, log); err != nil {
		log.Error("stopped", "err", err)
		return 1
	}
	return 0
}

// newService returns the handler of a service, with /health beside what it serves.
func newService(service, version string, up *upstream) (http.Handler, error) {
	if version != "v1" && version != "v2" {
		return nil, fmt.Errorf("-version %q: want v1 or v2", version)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	switch service {
	case "productpage":
		newProductPage(up).register(mux)
	case "details":
		mux.HandleFunc("GET /details/0", serveDetails)
	case "reviews":
		mux.Handle("GET /reviews/0", reviewer{version: version, up: up})
	case "ratings":
		mux.HandleFunc("GET /ratings/0", serveRatings)
	default:
		return nil, fmt.Errorf("-service %q: want productpage, details, reviews or ratings", service)
	}
	return mux, nil
}

// serve answers on addr until ctx is done, then lets requests in flight finish.
func serve(ctx context.Context, addr string, handler http.Handler, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Info("serving", "address", listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(grace)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// details is what the details service answers.
type details struct {
	Title     string `json:"title"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Pages     int    `json:"pages"`
	Publisher string `json:"publisher"`
	Language  string `json:"language"`
}

func serveDetails(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, details{
		Title: "The Comedy of Errors", Author: "William Shakespeare", Year: 1595, Pages: 200,
		Publisher: "PublisherA", Language: "English",
	})
}

// ratings maps a reviewer to one to five stars.
type ratings map[string]int

func serveRatings(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, ratings{"Reviewer1": 5, "Reviewer2": 4})
}

// reviews is what the reviews service answers. Version says which of them it was.
type reviews struct {
	Version      string   `json:"version"`
	Reviews      []review `json:"reviews"`
	RatingsError *failure `json:"ratingsError,omitempty"` // v2 without its ratings
}

type review struct {
	Reviewer string `json:"reviewer"`
	Text     string `json:"text"`
	Stars    int    `json:"stars,omitempty"` // v2 only
}

// reviewer serves reviews; v2 adds the stars that ratings knows.
type reviewer struct {
	version string
	up      *upstream
}

func (s reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := reviews{Version: s.version, Reviews: []review{
		{Reviewer: "Reviewer1", Text: "Two pairs of twins, one day, and nobody thinks of asking. I laughed all the way home."},
		{Reviewer: "Reviewer2", Text: "Short, loud and well built, though nobody in it learns anything."},
	}}
	if s.version == "v2" {
		s.addStars(r, &answer)
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s reviewer) addStars(r *http.Request, answer *reviews) {
	var stars ratings
	answer.RatingsError = s.up.fetch(r, "ratings", "/ratings/0", &stars)
	for i := range answer.Reviews {
		answer.Reviews[i].Stars = stars[answer.Reviews[i].Reviewer]
	}
}
