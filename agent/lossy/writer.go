package lossy

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	limit = 256 << 10 // bytes that wait: a second of Envoy at debug level, and no more memory than that
	kept  = 16 << 10  // bytes of a buffer that is kept for the next lines
)

// Writer is an io.Writer that never blocks and never fails. Nothing is started before its first Write.
type Writer struct {
	to      io.Writer
	flowing func(dropped int64)

	mu      sync.Mutex
	pending []byte
	spare   []byte        // for pending, while the other one is written
	writing chan struct{} // closed when nothing is pending any more; nil while nothing is
	broken  bool          // the last lines could not be written
	dropped int64         // lines, ever
	told    int64         // of these
}

// NewWriter returns a writer to a file.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// OnFlow sets the function that is called each time the file takes lines again after some were dropped, with their number. The
// lines that it writes stand in the place of the dropped ones.
func (w *Writer) OnFlow(flowing func(dropped int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flowing = flowing
}

// Write takes whole lines, or drops them all.
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

// Dropped is how many lines were, ever.
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
			flowing(dropped) // comes after lines, as what was dropped did
		}
		if len(lines) == 0 && dropped == 0 {
			return
		}
		_, err := w.to.Write(lines)
		w.written(lines, err)
	}
}

// take returns what is to be written, and how many lines were dropped and can be told now. Nothing of both is the end of
// the goroutine.
func (w *Writer) take() (lines []byte, dropped int64, flowing func(int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, w.pending, w.spare = w.pending, w.spare, nil
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
	if w.broken = err != nil; w.broken { // its reader is gone, or its disk is full
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
