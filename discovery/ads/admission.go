package ads

import (
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// readAhead is how much is read from a stream that waits for its view, in bytes: the requests, and costOfKept for each.
// As much again may wait unread.
const (
	readAhead  = window
	costOfKept = 512
)

// admission is the wait of a new stream for its view. When a server restarts, a thousand streams wait for a hundred
// views, and each Envoy has sent a request for every type, some of them with a thousand names. Unread they would wait
// in gRPC's buffers; read they are small, since what streams have in common is kept once. So they are read meanwhile.
//
//	first request ─▶ waits ──────────── its view is made ─▶ the kept requests are answered, in order ─▶ over
//	                   │  ▲                                                                               │
//	further requests ──┘  └─ beyond readAhead: not read                       each request is answered at once
type admission struct {
	waits bool
	kept  []kept // the oldest first
	read  int    // bytes, since it began
	err   error  // of a kept request
}

type kept struct {
	kind    content.Kind
	request *protocol.Request
}
