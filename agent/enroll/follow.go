package enroll

import (
	"bytes"
	"context"
	"fmt"
	random "math/rand/v2"
	"time"

	"github.com/pilotlight/pilotlight/internal/safefile"
)

// follow waits until a certificate is to be renewed: at a time, or when the authority has other roots. While a root is replaced, the new one must
// be trusted before certificates are of it. Roots come with a certificate: by its serial Envoy shows that it has taken both, and roots alone
// would need another Envoy. It reports whether ctx is not done.
func (e *Enrollment) follow(ctx context.Context, h *held, until time.Time) bool {
	said := ""
	for {
		left, life := time.Until(until), h.to.Sub(h.from)
		wait := nextLook(life, random.Float64())
		if wait >= left {
			return sleep(ctx, left)
		}
		if !sleep(ctx, wait) {
			return false
		}
		other, err := e.look(ctx, h)
		if other {
			e.config.Log.Info("the authority has other roots, a certificate is asked for", "authority", e.config.Host)
			return true
		}
		if text := fmt.Sprint(err); err != nil && text != said && ctx.Err() == nil {
			said = text
			e.config.Log.Warn("roots not asked for, those of the certificate are used", "err", err, "authority", e.config.Host)
		}
	}
}

// look reports whether the authority has other roots than those of a certificate.
func (e *Enrollment) look(ctx context.Context, h *held) (other bool, err error) {
	given, _ := safefile.Read(e.config.Roots, longestToken<<6) // those of the certificate are there
	roots, err := e.roots(ctx, append(given, h.roots...), h)
	return err == nil && roots != nil && !bytes.Equal(roots, h.roots), err
}
