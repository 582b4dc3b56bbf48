package ads

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// viewers limits how many different views the streams of one identity may need.
type viewers struct {
	mu    sync.Mutex
	views map[string]map[xds.Outbound]int // streams, by identity, then view
}

// enter counts a stream. A view that the identity has already is always allowed.
func (v *viewers) enter(owner string, view xds.Outbound, limit int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.views[owner]
	if _, known := own[view]; !known && limit > 0 && len(own) >= limit {
		return status.Errorf(codes.ResourceExhausted,
			"%s has %d different views already, by namespace, labels, locality and others of its nodes: at most --maxViewsPerIdentity", owner, len(own))
	}
	if own == nil {
		own = map[xds.Outbound]int{}
		if v.views == nil {
			v.views = map[string]map[xds.Outbound]int{}
		}
		v.views[owner] = own
	}
	own[view]++
	return nil
}

// leave removes a stream that enter counted. The view is kept until forget, and still counts until then.
func (v *viewers) leave(owner string, view xds.Outbound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.views[owner][view]--
}

// forget drops the views that no stream has.
func (v *viewers) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for owner, own := range v.views {
		for view, streams := range own {
			if streams == 0 {
				delete(own, view)
			}
		}
		if len(own) == 0 {
			delete(v.views, owner)
		}
	}
}
