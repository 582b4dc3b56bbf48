package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// unreadPipe returns a pipe's ends: nobody reads it until the test does.
func unreadPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// A log that nobody reads, or whose reader has died, costs its lines and nothing else: Envoy at debug level serves, comes
// back when it is killed, and is stopped in time.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"unread": false, "the reader dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandalone(t)
			read, write := unreadPipe(t)
			s.stderr = write
			s.launch("--proxyLogLevel", "debug")
			s.must(s.awaitRevision(1, 30*time.Second))
			if dies {
				s.must(read.Close())
				s.must(write.Close())
			}
			s.must(lab.Eventually(lab.StopLimit, func() error {
				for range 20 {
					if _, err := lab.Get("http://" + s.address); err != nil {
						return err
					}
				}
				return s.droppedLines()
			}))
			pid := s.pid("serving")
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			s.must(s.awaitStatus(startLimit, "another Envoy that serves", func(a agentStatus) bool {
				return a.servedByAnother(pid)
			}))
			if !dies {
				told := make(chan string, 1)
				go firstLine(read, "lines dropped: nobody read them", told)
				if line := <-told; !strings.Contains(line, "stream=stderr") {
					t.Errorf("when it is read again, the log says %q of what was dropped", line)
				}
			}
			watch := lab.StartStopwatch()
			s.Signal(syscall.SIGTERM)
			if code, err := s.Wait(lab.StopLimit); code != 0 || err != nil {
				t.Errorf("exit status %d after %s: %v", code, watch.Took(), err)
			}
			watch.Within(t, 3*time.Second, "the stop")
		})
	}
}

func (s *standalone) droppedLines() error {
	metrics, err := lab.Get("http://" + s.status + "/metrics")
	if err == nil && strings.Contains(metrics, `log_lines_dropped_total{stream="stderr"} 0`) {
		err = fmt.Errorf("no line was dropped")
	}
	return err
}

// firstLine reads until a line has a text, and no further.
func firstLine(from *os.File, text string, found chan<- string) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			found <- lines.Text()
			return
		}
	}
	found <- "nothing"
}

// Envoy may open /dev/stdout though the agent's stdout is a socket, as it is under systemd. SIGHUP ends nothing.
func TestAnAccessLogToASocket(t *testing.T) {
	t.Parallel()
	// A test that is run under nohup ignores SIGHUP, and so would the agent that it starts.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	s := newStandalone(t)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	s.must(err)
	mine, theirs := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "theirs")
	defer mine.Close()
	defer theirs.Close()
	s.stdout = theirs
	s.mutate = func(text string) string {
		return strings.Replace(text, `"stat_prefix": "inbound",`, `"stat_prefix": "inbound", "access_log": [{"name": "file", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/dev/stdout",
			"log_format": {"text_format_source": {"inline_string": "asked %REQ(:PATH)%\n"}}}}],`, 1)
	}
	s.configure(1)
	s.launch("--", "--file-flush-interval-msec", "50")
	s.must(s.awaitRevision(1, 30*time.Second))
	s.Signal(syscall.SIGHUP)
	s.must(s.AwaitLog("SIGHUP received: every watched file is read"))
	if _, err := lab.Get("http://" + s.address + "/path"); err != nil {
		t.Error(err)
	}
	found := make(chan string, 1)
	go firstLine(mine, "asked /path", found)
	select {
	case <-found:
	case <-time.After(lab.StopLimit):
		t.Error("the access log is not written to the socket")
	}
}
