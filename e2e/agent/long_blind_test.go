//go:build long

package agent

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// awaitReadiness waits until readiness has a status and says something.
func (s *standalone) awaitReadiness(code int, text string) error {
	return lab.Eventually(15*time.Second, func() error {
		response, err := fresh.Get("http://" + s.status + "/healthz/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != code || !strings.Contains(string(body), text)) {
			err = fmt.Errorf("readiness is %s: %s, want %d: %s", response.Status, body, code, text)
		}
		return err
	})
}

// An Envoy whose listeners somebody else has closed is not ready.
func TestLongAStrangerDrains(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	admin := lab.OverUnix(filepath.Join(s.ConfigPath, "admin-rev0-*.sock"))
	response, err := admin.Post("http://envoy/drain_listeners", "", nil)
	s.must(err)
	response.Body.Close()
	s.must(s.awaitReadiness(http.StatusServiceUnavailable, "1 listeners were told to close, and not by this agent"))
}
