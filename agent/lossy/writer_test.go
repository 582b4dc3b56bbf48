package lossy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipe is a file whose reader can be away, or dead.
type pipe struct {
	mu    sync.Mutex
	text  bytes.Buffer
	fault error
	gate  chan struct{} // each Write takes one; closed to let all pass
}

func (p *pipe) Write(text []byte) (int, error) {
	<-p.gate
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return 0, p.fault
	}
	return p.text.Write(text)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *pipe) breaks(fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// A pipe that no process reads blocks no writer. When it is read again, the number of dropped lines is reported once,
// in their place.
func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{gate: make(chan struct{})}
		w := NewWriter(p)
		w.OnFlow(func(n int64) { fmt.Fprintf(w, "dropped %d\n", n) })
		line := strings.Repeat("x", 1023) + "\n"
		for range 1000 { // the first is being written
			io.WriteString(w, line)
			synctest.Wait()
		}
		const fits = 1 + limit/1024
		if got := w.Dropped(); got != 1000-fits {
			t.Errorf("%d lines dropped, want %d", got, 1000-fits)
		}
		began := time.Now()
		if w.Flush(time.Second); time.Since(began) != time.Second {
			t.Errorf("Flush took %s, want its limit", time.Since(began))
		}
		close(p.gate)
		synctest.Wait()
		io.WriteString(w, "after\n")
		w.Flush(time.Second)
		want := strings.Repeat(line, fits) + fmt.Sprintf("dropped %d\n", 1000-fits) + "after\n"
		if got := p.String(); got != want {
			t.Errorf("%d bytes ... %q, want %d ... %q", len(got), got[max(0, len(got)-40):], len(want), want[len(want)-40:])
		}
	})
}

// If the reader dies, the lines are lost, and the next reader receives their number.
func TestTheReaderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{gate: make(chan struct{}), fault: errors.New("broken pipe")}
		close(p.gate)
		w := NewWriter(p)
		w.OnFlow(func(n int64) { fmt.Fprintf(w, "dropped %d\n", n) })
		for range 3 {
			io.WriteString(w, "one\ntwo\n")
			w.Flush(time.Second)
		}
		if got := w.Dropped(); got != 6 {
			t.Errorf("%d lines dropped, want 6", got)
		}
		p.breaks(nil)
		io.WriteString(w, "three\n")
		w.Flush(time.Second)
		if got, want := p.String(), "three\ndropped 6\n"; got != want {
			t.Errorf("written %q, want %q", got, want)
		}
	})
}

// With any number of writers, each line arrives whole and once.
func TestManyWrite(t *testing.T) {
	p := &pipe{gate: make(chan struct{})}
	close(p.gate)
	w := NewWriter(p)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 500 {
				io.WriteString(w, "0123456789\n")
			}
		})
	}
	writers.Wait()
	w.Flush(time.Minute)
	if got := strings.ReplaceAll(p.String(), "0123456789\n", "."); got != strings.Repeat(".", 4000) || w.Dropped() != 0 {
		t.Errorf("%d lines whole, %d dropped, want 4000", strings.Count(got, "."), w.Dropped())
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", longest)
	for _, test := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"whole", []string{"a\nb\n"}, []string{"a\nb\n"}},
		{"cut", []string{"a\nb", "c", "d\n"}, []string{"a\n", "bcd\n"}},
		{"without an end", []string{"a\nb"}, []string{"a\n", "b\n"}},
		{"without an end at all", []string{long, "y", "z\n"}, []string{long + "y", "z\n"}},
		{"nothing", []string{""}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			l := Lines{To: writerFunc(func(p []byte) { got = append(got, string(p)) })}
			for _, piece := range test.pieces {
				if n, err := io.WriteString(&l, piece); n != len(piece) || err != nil {
					t.Errorf("write %d bytes: %d, %v", len(piece), n, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("got %.100q, want %.100q", got, test.want)
			}
		})
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// What is lost when another image goes on is told by that image, with what was dropped before. A Writer that stays has its lines.
func TestLinesThatAreLostWithAnImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, flows := &pipe{gate: make(chan struct{})}, &pipe{gate: make(chan struct{})}
		close(flows.gate)
		tell := func(w *Writer) { w.OnFlow(func(n int64) { fmt.Fprintf(w, "dropped %d\n", n) }) }
		w := NewWriter(stuck)
		tell(w)
		io.WriteString(w, "1\n2\n") // is being written
		synctest.Wait()
		io.WriteString(w, "3\n")                                                     // waits
		io.WriteString(w, strings.Repeat(strings.Repeat("x", 99)+"\n", limit/100+1)) // too much
		carried := w.Carry()
		if want := int64(3 + limit/100 + 1); carried != (Carried{want, 0}) {
			t.Fatalf("carried %+v, want %d lines", carried, want)
		}
		next := NewWriter(flows)
		tell(next)
		next.Resume(carried)
		io.WriteString(next, "goes on\n")
		synctest.Wait()
		if got, want := flows.String(), fmt.Sprintf("goes on\ndropped %d\n", carried.Dropped); got != want || next.Dropped() != carried.Dropped {
			t.Errorf("got %q and %d, want %q", got, next.Dropped(), want)
		}
		if again := next.Carry(); again != (Carried{carried.Dropped, carried.Dropped}) {
			t.Errorf("carried once more: %+v", again)
		}
		w.Resume(carried) // the other image could not go on
		close(stuck.gate)
		synctest.Wait()
		if got, want := stuck.String(), fmt.Sprintf("1\n2\n3\ndropped %d\n", limit/100+1); got != want {
			t.Errorf("the image that stays writes %q, want %q", got, want)
		}
	})
}
