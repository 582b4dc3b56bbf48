package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Certificate is a certificate that Envoy presents.
type Certificate struct {
	Path     string // "<inline>" when it came by SDS, also from a file
	Serial   string // lower-case hex of whole bytes: "03e9"
	NotAfter time.Time
}

// Certificates lists the certificates that Envoy would present now. It is the only proof of a rotation:
// sds.*.update_success rises and sds.*.version stays whether Envoy has accepted the new certificate or not.
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
