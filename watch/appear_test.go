package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAppears(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after func(dir string) error
		there         bool
	}{
		"there already":      {before: func(dir string) error { return os.Mkdir(filepath.Join(dir, "it"), 0o700) }, there: true},
		"created":            {after: func(dir string) error { return os.WriteFile(filepath.Join(dir, "it"), nil, 0o600) }, there: true},
		"a link to nothing":  {after: func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "it")) }, there: true},
		"another file":       {after: func(dir string) error { return os.WriteFile(filepath.Join(dir, "its"), nil, 0o600) }},
		"nothing":            {},
		"its directory also": {before: os.Remove, after: func(dir string) error { return os.MkdirAll(filepath.Join(dir, "it"), 0o700) }, there: true},
		"renamed": {
			before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "other"), nil, 0o600) },
			after:  func(dir string) error { return os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "it")) }, there: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			limit := time.Minute
			if !test.there {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := os.Mkdir(dir, 0o700)
			if test.before != nil {
				err = errors.Join(err, test.before(dir))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Appears(ctx, filepath.Join(dir, "it"))
			}()
			if test.after != nil {
				err = errors.Join(err, test.after(dir))
			}
			<-done
			if (ctx.Err() == nil) != test.there || err != nil {
				t.Errorf("it has waited until %v, %v; want it there: %v", ctx.Err(), err, test.there)
			}
		})
	}
}
