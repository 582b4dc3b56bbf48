package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Certificate is one that Envoy presents.
type Certificate struct {
	Path     string // "<inline>" when it came by a secret, from a file too
	Serial   string // lower-case hex of whole bytes: "03e9"
	NotAfter time.Time
}

// Certificates lists what Envoy would present now: the one proof of a rotation, for sds.*.update_success rises and
// sds.*.version stays whether Envoy took it or not.
func (a *Admin) Certificates(ctx context.Context) ([]Certificate, error) {
	body, err := a.get(ctx, "/certs")
	if err != nil {
		return nil, err
	}
	return parseCertificates(body)
}

func parseCertificates(body []byte) ([]Certificate, error) {
	var answer struct {
		Certificates []struct {
			Chain []struct {
				Path     string    `json:"path"`
				Serial   string    `json:"serial_number"`
				NotAfter time.Time `json:"expiration_time"`
			} `json:"cert_chain"`
		} `json:"certificates"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("parse Envoy's /certs: %w", err)
	}
	var out []Certificate
	for _, c := range answer.Certificates {
		for _, link := range c.Chain {
			out = append(out, Certificate(link))
		}
	}
	return out, nil
}
