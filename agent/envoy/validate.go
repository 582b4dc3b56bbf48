package envoy

import (
	"context"
	"fmt"
)

// Validate runs Envoy's own validation of a bootstrap, with the arguments of an epoch. The error has Envoy's message.
// The validation touches neither the network nor a running Envoy, so it does not find a busy port. It takes 75 to 155
// ms, with 1,000 clusters 1.2 s (measured on 1.40). ctx bounds it.
func Validate(ctx context.Context, binary, bootstrapPath string, o Options) error {
	all := append([]string{"--mode", "validate", "--config-path", bootstrapPath}, o.arguments()...)
	if _, err := ask(ctx, binary, all...); err != nil {
		return fmt.Errorf("validate %s: %w", bootstrapPath, err)
	}
	return nil
}
