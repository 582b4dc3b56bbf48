package envoy

import (
	"context"
	"fmt"
)

// Validate asks Envoy whether it would take a bootstrap, with the arguments that an epoch is started with. The error is
// in Envoy's words. It touches neither the network nor a running Envoy, and cannot know of a port that is busy; 75 to
// 155 ms, with 1,000 clusters 1.2 s (measured on 1.40). ctx bounds it.
func Validate(ctx context.Context, binary, bootstrapPath string, o Options) error {
	all := append([]string{"--mode", "validate", "--config-path", bootstrapPath}, o.arguments()...)
	if _, err := ask(ctx, binary, all...); err != nil {
		return fmt.Errorf("validate %s: %w", bootstrapPath, err)
	}
	return nil
}
