package csi

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of CSI and of kubelet's registration, as far as the driver has a use for
// them. Numbers are those of csi.proto (version 1.12) and of pluginregistration/v1. A field
// that is not read here is skipped, as protobuf demands.

var errMalformed = errors.New("the message is malformed")

// field is one field of a message: text of a string or message, or number of an integer,
// bool or enumeration.
type field struct {
	name   protowire.Number
	text   []byte
	number uint64
}

// fields calls f for each field of a message.
func fields(message []byte, f func(field) error) error {
	for len(message) > 0 {
		name, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		is := field{name: name}
		switch kind {
		case protowire.BytesType:
			is.text, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			is.number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(name, kind, message)
		}
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		if err := f(is); err != nil {
			return err
		}
	}
	return nil
}

// entry adds an entry of a map from text to text.
func entry(m map[string]string, message []byte) error {
	var key, value string
	err := fields(message, func(f field) error {
		switch f.name {
		case 1:
			key = string(f.text)
		case 2:
			value = string(f.text)
		}
		return nil
	})
	m[key] = value
	return err
}

// publishRequest is a NodePublishVolumeRequest.
type publishRequest struct {
	volume, target      string
	readOnly            bool
	capability          capability
	secrets, attributes map[string]string
}

// capability is a VolumeCapability.
type capability struct {
	given, block, mount, readOnly bool
	mountFlags                    int
}

func parsePublish(message []byte) (r publishRequest, err error) {
	r.secrets, r.attributes = make(map[string]string), make(map[string]string)
	err = fields(message, func(f field) (err error) {
		switch f.name {
		case 1:
			r.volume = string(f.text)
		case 4:
			r.target = string(f.text)
		case 5:
			r.capability.given = true
			err = r.capability.parse(f.text)
		case 6:
			r.readOnly = f.number != 0
		case 7:
			err = entry(r.secrets, f.text)
		case 8:
			err = entry(r.attributes, f.text)
		}
		return err
	})
	return r, err
}

func (c *capability) parse(message []byte) error {
	const readers, nodeReaders = 2, 3 // SINGLE_NODE_READER_ONLY, MULTI_NODE_READER_ONLY
	return fields(message, func(f field) error {
		switch f.name {
		case 1:
			c.block = true
		case 2:
			c.mount = true
			return fields(f.text, func(f field) error {
				if f.name == 2 {
					c.mountFlags++
				}
				return nil
			})
		case 3:
			return fields(f.text, func(f field) error {
				c.readOnly = f.name == 1 && (f.number == readers || f.number == nodeReaders)
				return nil
			})
		}
		return nil
	})
}

// volumeRequest is a NodeUnpublishVolumeRequest or a NodeGetVolumeStatsRequest.
type volumeRequest struct{ volume, path string }

func parseVolume(message []byte) (r volumeRequest, err error) {
	err = fields(message, func(f field) error {
		switch f.name {
		case 1:
			r.volume = string(f.text)
		case 2:
			r.path = string(f.text)
		}
		return nil
	})
	return r, err
}

// message builds a message. Zero values are left out, as protobuf demands.
type message []byte

func (m message) text(name protowire.Number, text string) message {
	if text == "" {
		return m
	}
	return protowire.AppendString(protowire.AppendTag(m, name, protowire.BytesType), text)
}

func (m message) number(name protowire.Number, n int64) message {
	if n == 0 {
		return m
	}
	return protowire.AppendVarint(protowire.AppendTag(m, name, protowire.VarintType), uint64(n))
}

func (m message) flag(name protowire.Number, set bool) message {
	if !set {
		return m
	}
	return m.number(name, 1)
}

// message adds a message, also an empty one.
func (m message) message(name protowire.Number, inner message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, name, protowire.BytesType), inner)
}

// parseRegistered reads kubelet's RegistrationStatus.
func parseRegistered(message []byte) (registered bool, problem string, err error) {
	err = fields(message, func(f field) error {
		switch f.name {
		case 1:
			registered = f.number != 0
		case 2:
			problem = fmt.Sprintf("%.1000s", f.text)
		}
		return nil
	})
	return registered, problem, err
}
