package agent

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// steady asks the status port without a pause until stop is called, which returns how often, the errors, and the waits in milliseconds.
func (s *standalone) steady() (stop func() (asked int, failures []string, waits []float64)) {
	end, done := make(chan struct{}), make(chan struct{})
	asked, failures, waits := 0, []string(nil), []float64(nil)
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			response, err := fresh.Get("http://" + s.status + []string{"/healthz/ready", "/healthz/live"}[asked%2])
			if err == nil {
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", response.Status)
				}
			}
			asked++
			waits = append(waits, milliseconds(time.Since(began)))
			if err != nil {
				failures = append(failures, began.UTC().Format("05.000 ")+time.Since(began).String()+" "+err.Error())
			}
		}
	}()
	return func() (int, []string, []float64) {
		close(end)
		<-done
		return asked, failures, waits
	}
}

// Upgrades in a row under load, between two builds: no request fails, neither Envoy nor a socket changes, and nothing is left.
func TestSoakUpgrades(t *testing.T) {
	t.Parallel()
	two := images(t)
	s := newStandalone(t)
	s.beside(two[0])
	s.must(s.upgrade(two[0]))
	first := s.vitals()
	load, stop := s.load(), s.steady()
	var last vitals
	series := map[string][]float64{}
	for i := 1; i <= *soak; i++ {
		s.must(s.upgrade(two[i%2]))
		last = s.vitals()
		for what, value := range map[string]float64{"kB resident": float64(last.resident >> 10), "threads": float64(last.threads), "descriptors": float64(len(last.files))} {
			series[what] = append(series[what], value)
		}
		if want := two[i%2]; last.image != want || last.envoy != first.envoy || last.restart != first.restart || last.children != 1 {
			t.Fatalf("after upgrade %d: %+v, want image %s and as before %+v", i, last, want, first)
		}
	}
	asked, failures, waits := stop()
	slices.Sort(waits)
	load1, _ := os.ReadFile("/proc/loadavg")
	t.Logf("status port: asked %d times, wait %s, the longest %d: %s; load %s", asked, spread("%.1f ms", waits), min(*soak, len(waits)),
		spread("%.1f ms", waits[max(0, len(waits)-*soak):]), load1)
	for what, values := range series {
		level(t, what, values)
	}
	if len(failures) > 0 {
		t.Errorf("%d of %d questions at the status port failed: %q", len(failures), asked, failures)
	}
	lab.Unharmed(t, load)
	if err := lab.Eventually(lab.StopLimit, func() error { // descriptors of requests that are over
		if last = s.vitals(); len(last.files) > len(first.files) {
			return fmt.Errorf("%d descriptors, at first %d:\n%s\nat first:\n%s", len(last.files), len(first.files),
				strings.Join(last.files, "\n"), strings.Join(first.files, "\n"))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if last.threads > first.threads+4 {
		t.Errorf("%d threads, at first %d", last.threads, first.threads)
	}
	if last.resident > first.resident+first.resident/5 {
		t.Errorf("%d bytes resident, at first %d", last.resident, first.resident)
	}
	a, err := s.ask()
	s.must(err)
	if a.Upgrades.Count != *soak+1 || a.Counts["starting Envoy"] != 1 || a.Readiness.Changes != 1 {
		t.Errorf("it tells %+v", a)
	}
	s.handOver(2) // the last image can do what the first one could
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread is the median and the range of figures.
func spread(format string, of []float64) string {
	if len(of) == 0 {
		return "nothing"
	}
	sorted := slices.Sorted(slices.Values(of))
	return fmt.Sprintf(format+" ("+format+" to "+format+")", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}

// level prints the second quarter and the last one of what was measured after each upgrade. After enough of them the means are within 2 %,
// and three times their standard error: a thread more or less at the moment of a look is no leak.
func level(t *testing.T, what string, values []float64) {
	t.Helper()
	quarter := len(values) / 4
	early, late := values[quarter:2*quarter], values[len(values)-quarter:]
	t.Logf("%s: %s, at the end %s", what, spread("%.0f", early), spread("%.0f", late))
	from, varied := mean(early)
	to, variedToo := mean(late)
	if chance := 3 * math.Sqrt(varied+variedToo); len(values) >= 100 && math.Abs(to-from) > from/50+chance {
		t.Errorf("%s: %.1f on average of the second quarter, %.1f of the last one: more than 2 %% and %.1f apart", what, from, to, chance)
	}
}

// mean returns the mean of figures, and the square of its standard error.
func mean(of []float64) (mean, variance float64) {
	n := float64(len(of))
	for _, value := range of {
		mean += value / n
	}
	for _, value := range of {
		variance += (value - mean) * (value - mean) / n / n
	}
	return mean, variance
}
