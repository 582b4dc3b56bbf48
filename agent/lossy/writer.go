package lossy

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	limit = 256 << 10 // bytes that wait: a second of Envoy's log at debug level
	kept  = 16 << 10  // bytes of a buffer that is kept for the next lines
)

// Writer is an io.Writer that never blocks and never fails. Nothing is started before its first Write.
type Writer struct {
	to      io.Writer
	flowing func(dropped int64)

	mu      sync.Mutex
	pending []byte
	current []byte        // is being written
	spare   []byte        // for pending, while the other one is written
	writing chan struct{} // closed when nothing is pending any more; nil while nothing is
	broken  bool          // the last lines could not be written
	dropped int64         // lines, since the start
	told    int64         // dropped lines of which the callback has been called
	carried bool          // by Carry, of this Writer
}

// NewWriter returns a writer to a file.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// OnFlow sets the function that is called each time the file accepts lines again after some were dropped, with their
// number. The lines that the function writes take the place of the dropped ones.
func (w *Writer) OnFlow(flowing func(dropped int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flowing = flowing
}

// Write accepts whole lines, or drops them all.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending)+len(lines) > limit {
		w.drop(lines)
		return len(lines), nil
	}
	w.pending = append(w.pending, lines...)
	if w.writing == nil {
		w.writing = make(chan struct{})
		go w.run(w.writing)
	}
	return len(lines), nil
}

func (w *Writer) drop(lines []byte) {
	w.dropped += int64(max(1, bytes.Count(lines, []byte("\n"))))
}

// Dropped returns the number of dropped lines since the start.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// run writes until nothing is pending.
func (w *Writer) run(done chan<- struct{}) {
	defer close(done)
	for {
		lines, dropped, flowing := w.take()
		if dropped > 0 && flowing != nil {
			flowing(dropped) // after lines, since the dropped lines came after them
		}
		if len(lines) == 0 && dropped == 0 {
			return
		}
		_, err := w.to.Write(lines)
		w.written(lines, err)
	}
}

// take returns the lines to write, and how many lines were dropped and can be reported now. If there are neither, the
// goroutine ends.
func (w *Writer) take() (lines []byte, dropped int64, flowing func(int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, w.pending, w.spare = w.pending, w.spare, nil
	w.current = lines
	if !w.broken {
		dropped, w.told = w.dropped-w.told, w.dropped
	}
	if len(lines) == 0 && dropped == 0 {
		w.writing = nil
	}
	return lines, dropped, w.flowing
}

func (w *Writer) written(lines []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
	if w.broken = err != nil; w.broken { // the reader is gone, or the disk is full
		w.drop(lines)
	}
	if cap(lines) <= kept {
		w.spare = lines[:0]
	}
}

// Flush waits until all is written, or the limit is over.
func (w *Writer) Flush(limit time.Duration) {
	w.mu.Lock()
	writing := w.writing
	w.mu.Unlock()
	if writing == nil {
		return
	}
	select {
	case <-writing:
	case <-time.After(limit):
	}
}

// Carried is what another Writer to the same file goes on with.
type Carried struct {
	Dropped int64 `json:"Dropped"` // lines since the start, those that have not been written yet among them
	Told    int64 `json:"Told"`    // of these, as far as the callback has been called
}

// Carry counts as dropped what has not been written yet: it is lost with this process, unless it is written until then.
func (w *Writer) Carry() Carried {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.carried = true
	unwritten := bytes.Count(w.pending, []byte("\n")) + bytes.Count(w.current, []byte("\n"))
	return Carried{w.dropped + int64(unwritten), w.told}
}

// Resume goes on with what another Writer knew: the lines that were dropped are reported when the file accepts lines again. A Writer that was
// carried itself, and is still there, has its lines.
func (w *Writer) Resume(from Carried) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.carried {
		w.dropped, w.told = w.dropped+max(0, from.Dropped), w.told+max(0, min(from.Told, from.Dropped))
	}
}
