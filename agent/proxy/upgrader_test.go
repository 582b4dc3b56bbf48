package proxy

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/pilotlight/pilotlight/agent/upgrade"
)

// An agent that can never be replaced asks nobody, leaves nothing, and says why.
func TestUnableToBeReplaced(t *testing.T) {
	u := &upgrader{
		able: func() error { return errors.New("built otherwise") },
		ask: func(context.Context, *os.File, []string, []string) (upgrade.Answer, error) {
			t.Error("another image was asked")
			return upgrade.Answer{}, nil
		},
		leave: func(context.Context) error {
			t.Error("the supervisor leaves")
			return nil
		},
		log: slog.New(slog.DiscardHandler),
	}
	_, err := u.upgrade(t.Context(), os.Args[0])
	if told := u.upgrades(); err == nil || told.Failure != "built otherwise" || told.Pending != "" || told.Count != 0 {
		t.Errorf("got %v, told %+v", err, told)
	}
}
