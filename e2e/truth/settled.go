package truth

import (
	"encoding/json"
	"fmt"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Settled waits until a proxy has answered for everything that discovery, whose pages get returns, has pushed.
func Settled(get func(path string) (string, error), node string) error {
	page := func(path string, into any) error {
		text, err := get(path)
		if err == nil {
			err = json.Unmarshal([]byte(text), into)
		}
		return err
	}
	return lab.Eventually(lab.StopLimit, func() error {
		var pushes, clients []struct {
			Node       string
			Generation int64
		}
		if err := page("/debug/push_status", &pushes); err != nil {
			return err
		}
		if err := page("/debug/adsz", &clients); err != nil {
			return err
		}
		newest := int64(0)
		for _, push := range pushes {
			newest = max(newest, push.Generation)
		}
		for _, c := range clients {
			if c.Node == node && c.Generation >= newest {
				return nil
			}
		}
		return fmt.Errorf("%s has not answered for generation %d: %+v", node, newest, clients)
	})
}
