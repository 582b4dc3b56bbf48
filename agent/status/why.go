package status

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/why"
	"github.com/pilotlight/pilotlight/internal/local"
)

// Why is the document of /why: why requests failed, of the Envoy that serves.
type Why struct {
	At       time.Time     `json:"at"`
	Node     string        `json:"node,omitempty"`
	Epoch    int           `json:"epoch"`
	Since    time.Time     `json:"since"` // of the counts: the Envoy's start
	Findings []why.Finding `json:"findings"`
	Requests []why.Request `json:"requests"`        // the last ones that failed, the oldest first
	Recorded time.Time     `json:"recorded_since"`  // of Requests
	Lacks    []string      `json:"lacks,omitempty"` // what could not be asked, or is not counted or recorded
}

// whyKept is how long an answer is given again: it costs Envoy's main thread up to 60 ms with 5,000 services.
const whyKept = time.Second

// asking asks for a Why, one question at a time.
type asking struct {
	ask func(ctx context.Context) (Why, error)

	mu   sync.Mutex
	last Why
}

// get returns an answer that is not older than whyKept.
func (a *asking) get(ctx context.Context) (Why, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := time.Since(a.last.At); age >= 0 && age < whyKept {
		return a.last, nil
	}
	answer, err := a.ask(ctx)
	if err == nil {
		a.last = answer
	}
	return answer, err
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := a.get(r.Context())
	if err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// readOnly shows next to programs on this host alone: it names whom the workload calls.
func (c Config) readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.owner {
			err := local.Request(r)
			if err == nil {
				err = notEnvoy(c.Envoys, r)
			}
			if err != nil {
				plain(w, http.StatusForbidden, r.URL.Path+" is for programs on this host only: "+err.Error()+
					"; the agent's user may read http://agent"+r.URL.Path+" over agent-*.sock in configPath")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
