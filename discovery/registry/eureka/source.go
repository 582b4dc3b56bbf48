package eureka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/bounded"
)

const (
	askTimeout  = 15 * time.Second
	dialTimeout = 5 * time.Second // a server that cannot be reached must not delay the next one
	mostBytes   = 64 << 20        // of one answer: 30,000 instances; it is read in pieces
	maxHeader   = 64 << 10        // of an answer

	maxRedirects = 10

	// renewal is longer than the default interval of instances between two renewals. An answer without any instance is
	// applied only after this time.
	renewal = 40 * time.Second
)

// emptyKey is the key of a group that is no host: it says that the source waits.
const emptyKey = "(all instances)"

// Config holds the settings of the connection to Eureka.
type Config struct {
	URLs     []string      // of servers with the same content: http://host:port/eureka; the first that answers is used
	Interval time.Duration // between two requests
	Grant    model.Grant   // of the hosts that it may give; Suffix is always among them
}

// Source sends the instances of a Eureka. It keeps its records between its runs, since a server that starts has none.
type Source struct {
	Config
	log     *slog.Logger
	settle  time.Duration // before an empty answer is applied
	silence time.Duration // time limit of a request

	mu       sync.Mutex // of a run
	registry *registry
	server   int  // that answered last
	begun    bool // the records of this process have been sent once
}

// New returns a source.
func New(c Config, log *slog.Logger) *Source {
	c.Grant.Suffix = Suffix
	return &Source{Config: c, log: log, settle: renewal, silence: askTimeout, registry: newRegistry(c.Grant)}
}

// OpenRegistry marks it as a registry in which anybody may write.
func (s *Source) OpenRegistry() {}

// Run sends updates until ctx is done or no server answers.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: s.silence, CheckRedirect: stay}

	sent, began := map[string]model.Group{}, time.Now()
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	told := false // that an empty answer waits
	for whole, synced := true, false; ; whole = false {
		err := s.read(ctx, client, whole)
		if ctx.Err() != nil {
			return nil // it was stopped
		}
		if err != nil {
			return err
		}
		now := time.Now()
		lapsed := s.registry.expire(now)
		changes := difference(sent, groupsOf(s.registry))
		for host, group := range changes {
			group.Lapsed = lapsed[host] || !s.begun // what an earlier process had is not in records
			changes[host] = group
		}
		ready := synced || len(s.registry.records) > 0 || now.Sub(began) >= s.settle
		if ready && told {
			changes[emptyKey], told = model.Group{}, false
		}
		if ready && (len(changes) > 0 || !synced) {
			select {
			case updates <- model.Update{Groups: changes, Synced: true}:
				synced, s.begun = true, true
			case <-ctx.Done():
				return nil
			}
		}
		if !ready && !told {
			select {
			case updates <- model.Update{Groups: map[string]model.Group{emptyKey: {Faults: []string{
				"Eureka has no instance: an answer without any counts after " + s.settle.String() + ", for a server that has just started has none",
			}}}}:
				told = true
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// difference returns the groups that differ from those that were sent, and records them as sent.
func difference(sent, now map[string]model.Group) map[string]model.Group {
	changes := map[string]model.Group{}
	for host, group := range now {
		if !reflect.DeepEqual(sent[host], group) {
			changes[host], sent[host] = group, group
		}
	}
	for host := range sent {
		if _, is := now[host]; !is {
			changes[host] = model.Group{}
			delete(sent, host)
		}
	}
	return changes
}

// read tries one server after another, beginning with the one that answered last, until one answers. If that is another
// server, everything is read: its deltas are of another time.
func (s *Source) read(ctx context.Context, client *http.Client, whole bool) error {
	var faults []error
	for i := range s.URLs {
		server := (s.server + i) % len(s.URLs)
		err := s.readFrom(ctx, client, s.URLs[server], whole || server != s.server)
		if err == nil {
			if server != s.server {
				s.log.Warn("another Eureka is asked", "server", redacted(s.URLs[server]), "before", redacted(s.URLs[s.server]), "err", errors.Join(faults...))
				s.server = server
			}
			return nil
		}
		if faults = append(faults, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}

// readFrom updates the registry: by a delta, or, if the result does not have the hash code of the server, by a complete
// answer.
func (s *Source) readFrom(ctx context.Context, client *http.Client, server string, whole bool) error {
	if !whole {
		delta, err := ask(ctx, client, server, "/apps/delta")
		switch {
		case errors.Is(err, errRefused): // a server may have deltas switched off
		case err != nil:
			return err
		default:
			if s.registry.delta(delta.changes); s.registry.hash() == string(delta.hash) {
				return nil
			}
		}
	}
	all, err := ask(ctx, client, server, "/apps")
	if err != nil {
		return err
	}
	s.registry.whole(all.changes, time.Now())
	return nil
}

// stay follows redirections on the same server only: the records of another one would be taken for those of Eureka, and
// discovery would send requests where the answer says.
func stay(r *http.Request, before []*http.Request) error {
	if len(before) == maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if r.URL.Scheme != before[0].URL.Scheme || r.URL.Host != before[0].URL.Host {
		return fmt.Errorf("it leads to %.200s, which is not followed: want the URL of Eureka itself", r.URL.Redacted())
	}
	return nil
}

var errLong = fmt.Errorf("the answer is longer than %d MiB", mostBytes>>20)

var errRefused = errors.New("the server refuses")

// ask returns an answer of a server.
func ask(ctx context.Context, client *http.Client, server, path string) (*applications, error) {
	wrong := func(err error) error {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the URL, which may hold a password
		}
		return fmt.Errorf("read %s of Eureka at %s: %w", path, redacted(server), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+path, nil)
	if err != nil {
		return nil, wrong(err)
	}
	request.Header.Set("Accept", "application/json") // the default is XML
	response, err := client.Do(request)
	if err != nil {
		return nil, wrong(err)
	}
	defer response.Body.Close()
	body := bounded.New(response.Body, mostBytes, errLong)
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(body, 200))
		return nil, wrong(fmt.Errorf("%w: %s: %s", errRefused, response.Status, strings.TrimSpace(string(said))))
	}
	out, err := readAnswer(body)
	if err != nil {
		return nil, wrong(err)
	}
	if out == nil {
		return nil, wrong(errors.New("the answer has no applications: want a URL such as http://host:8761/eureka"))
	}
	return out, nil
}

// redacted returns a URL without its password.
func redacted(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}
