package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var eventVersion = schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}

// ObjectEvent is an Event of the API, with the fields that are written.
type ObjectEvent struct {
	metav1.ObjectMeta   `json:"metadata,omitempty"`
	EventTime           metav1.MicroTime       `json:"eventTime"`
	ReportingController string                 `json:"reportingController,omitempty"`
	ReportingInstance   string                 `json:"reportingInstance,omitempty"`
	Action              string                 `json:"action,omitempty"`
	Reason              string                 `json:"reason,omitempty"`
	Regarding           corev1.ObjectReference `json:"regarding,omitempty"`
	Note                string                 `json:"note,omitempty"`
	Type                string                 `json:"type,omitempty"`
}

// Limits of the API server for the fields of an Event, in bytes.
const (
	maxNote     = 1024
	maxName     = 253
	maxInstance = 128
)

// Tell creates an Event with the content of a condition of an object. Its name is a hash of UID, generation and text,
// so there is one Event for these, also if several replicas create it or one repeats the call.
func (c *Client) Tell(ctx context.Context, of Ref, is Said, instance string, now time.Time) error {
	events, err := c.Resource(eventVersion.WithResource("events"), of.Namespace)
	if err != nil {
		return err
	}
	err = events.Create(ctx, manager, eventOf(of, is, instance, now), nil)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func eventOf(of Ref, is Said, instance string, now time.Time) *ObjectEvent {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s %d %s %s %s", of.UID, is.Generation, is.Status, is.Reason, is.Message)))
	end := "." + hex.EncodeToString(sum[:8])
	out := &ObjectEvent{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: strings.TrimRight(cut(of.Name, maxName-len(end)), ".-") + end},
		EventTime:  metav1.NewMicroTime(now), ReportingController: manager, ReportingInstance: cut(instance, maxInstance),
		Action: "Validate", Reason: is.Reason, Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{
			APIVersion: of.Resource.GroupVersion().String(), Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: types.UID(of.UID),
		},
		Note: cut(is.Message, maxNote),
	}
	if is.Message != "" {
		out.Type = corev1.EventTypeWarning
	}
	return out
}

// cut shortens a text to at most so many bytes, at the start of a rune.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
