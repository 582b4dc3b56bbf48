package envoy

import (
	"io"
	"os"
	"time"
)

// pipe passes on what a child writes. The agent always reads it, so a child never waits for a reader.
type pipe struct {
	read *os.File
	done chan struct{} // closed when it is no longer read
}

// pump starts to pass on what comes out of a pipe.
func pump(read *os.File, to io.Writer) *pipe {
	p := &pipe{read: read, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_, _ = io.Copy(to, read) // ends with the child's end of the pipe, or by stop
	}()
	return p
}

// end passes on the rest after the child's exit, and closes the pipe. It waits for a limited time, since a descendant of
// the child may hold the pipe.
func (p *pipe) end(limit time.Duration) {
	if p == nil {
		return
	}
	p.stop(limit)
	p.read.Close()
}

// stop stops to read at a time from now. What is not read by then stays in the pipe.
func (p *pipe) stop(after time.Duration) {
	if p == nil {
		return
	}
	if p.read.SetReadDeadline(time.Now().Add(after)) != nil {
		p.read.Close() // it is no pipe that the runtime polls
	}
	<-p.done
}
