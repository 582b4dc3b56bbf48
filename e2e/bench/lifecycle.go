package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const idlePeriod = 10 * time.Second

// standalone is an agent over a static bootstrap.
type standalone struct {
	*lab.Sidecar
	config, address, status, program string
}

// life measures what happens to an agent that serves: idleness, three handovers under load, a frozen Envoy, and a
// stop with a request in flight.
func (b *run) life(name string) error {
	program := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, err := time.ParseDuration(r.URL.RawQuery); err == nil {
			time.Sleep(d)
		}
		io.WriteString(w, "ok")
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go program.Serve(listener)
	defer program.Close()
	s, err := b.standalone(name, listener.Addr().String())
	if err != nil {
		return err
	}
	defer s.Stop(stopLimit)
	for _, measure := range []func(*standalone) error{b.idle, b.asked, b.handovers, b.freeze, b.drain} {
		if err := measure(s); err != nil {
			return fmt.Errorf("%w:\n%s", err, s.Log())
		}
	}
	return nil
}

func (b *run) standalone(name, program string) (*standalone, error) {
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = lab.FreePort(); err != nil {
			return nil, err
		}
	}
	s := &standalone{
		config: filepath.Join(b.Dir, name+".json"), address: fmt.Sprintf("%s1:%d", lab.Addresses(), ports[0]),
		status: fmt.Sprintf("127.0.0.1:%d", ports[1]), program: program,
	}
	if err := s.configure(1); err != nil {
		return nil, err
	}
	var err error
	s.Sidecar, err = b.Sidecar(lab.Workload{
		Name: name, App: name, IP: "127.0.0.1", Discovery: "127.0.0.1:1",
		Flags: []string{
			"--customConfigFile", s.config, "--statusPort", strconv.Itoa(ports[1]), "--drainDuration", "1s", "--parentShutdownDuration", "2s",
		},
	})
	if err != nil {
		return nil, err
	}
	return s, s.await(1)
}

func (s *standalone) configure(revision int) error {
	text := lab.StaticBootstrap(s.address, s.program, revision)
	if err := os.WriteFile(s.config+"~", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.config+"~", s.config)
}

// await waits until a new connection is answered by a revision.
func (s *standalone) await(revision int) error {
	client := &http.Client{Timeout: stopLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	return lab.Eventually(stopLimit, func() error {
		response, err := client.Get("http://" + s.address)
		if err != nil {
			return err
		}
		response.Body.Close()
		if got := response.Header.Get("x-rev"); got != strconv.Itoa(revision) {
			return fmt.Errorf("revision %q answers, want %d", got, revision)
		}
		return nil
	})
}

func (s *standalone) awaitAlone() error {
	return lab.Eventually(stopLimit, func() error {
		if n := len(lab.Children(s.Pid)); n != 1 {
			return fmt.Errorf("%d Envoys live", n)
		}
		return nil
	})
}

func (b *run) idle(s *standalone) error {
	time.Sleep(time.Second) // it settles once Envoy serves
	cpu, wakes := lab.CPU(s.Pid), lab.Wakeups(s.Pid)
	time.Sleep(idlePeriod)
	b.whole.idleCPU = append(b.whole.idleCPU, (lab.CPU(s.Pid)-cpu).Seconds()*float64(time.Minute/idlePeriod))
	b.rss = append(b.rss, float64(lab.RSS(s.Pid))/1e6)
	b.whole.wakeups = append(b.whole.wakeups, float64(lab.Wakeups(s.Pid)-wakes)/idlePeriod.Seconds())
	return nil
}

// asked measures memory after a thousand probes and a hundred scrapes.
func (b *run) asked(s *standalone) error {
	for i := range 1000 {
		if _, err := lab.Get("http://" + s.status + "/healthz/ready"); err != nil {
			return err
		}
		if i%10 != 0 {
			continue
		}
		if _, err := lab.Get("http://" + s.status + "/stats/prometheus"); err != nil {
			return err
		}
	}
	b.probed = append(b.probed, float64(lab.RSS(s.Pid))/1e6)
	return nil
}

func (b *run) handovers(s *standalone) error {
	load := lab.StartLoad(s.address, "http://"+s.address+"/", 6, 6)
	for revision := 2; revision <= 4; revision++ {
		began := time.Now()
		err := s.configure(revision)
		if err == nil {
			err = s.await(revision)
		}
		b.whole.handover = append(b.whole.handover, time.Since(began).Seconds())
		if err == nil {
			err = s.awaitAlone()
		}
		if err != nil {
			load.Stop()
			return err
		}
	}
	_, failures := load.Stop()
	b.whole.failed = append(b.whole.failed, float64(len(failures)))
	return nil
}

func (b *run) freeze(s *standalone) error {
	envoy, err := s.Envoy()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := syscall.Kill(envoy, syscall.SIGSTOP); err != nil {
		return err
	}
	if err := lab.Eventually(stopLimit, func() error {
		if _, err := lab.Get("http://" + s.status + "/healthz/ready"); err == nil {
			return fmt.Errorf("ready")
		}
		return nil
	}); err != nil {
		return err
	}
	b.whole.unready = append(b.whole.unready, time.Since(began).Seconds())
	err = s.await(4)
	b.whole.thawed = append(b.whole.thawed, time.Since(began).Seconds())
	return err
}

// drain stops the agent while a request takes another second.
func (b *run) drain(s *standalone) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/?1s", nil)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(response.Body)
			response.Body.Close()
			if err == nil && !strings.Contains(string(body), "ok") {
				err = fmt.Errorf("%s: %s", response.Status, body)
			}
		}
		answered <- err
	}()
	time.Sleep(200 * time.Millisecond)
	s.Signal(syscall.SIGTERM)
	if err := <-answered; err != nil {
		return err
	}
	began := time.Now()
	_, err = s.Wait(stopLimit)
	b.whole.answers = append(b.whole.answers, since(began))
	return err
}
