// Package quiet tells what nothing happens to by the bytes of the plugin
// protocol, for servers that answer such calls without the framework.
package quiet

import (
	"bytes"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// wireNull is null in msgpack.
var wireNull = []byte{0xc0}

// Exists says whether there is an object, and in the encoding of which there is
// but one for each value.
func Exists(v *tfprotov6.DynamicValue) bool {
	return v != nil && len(v.MsgPack) > 0 && !bytes.Equal(v.MsgPack, wireNull)
}

// Absent says whether there is no object.
func Absent(v *tfprotov6.DynamicValue) bool {
	return v != nil && v.JSON == nil && bytes.Equal(v.MsgPack, wireNull)
}

// Unchanged says whether an object is proposed to stay as it was. Core encodes
// equal values equally. It says nothing about attributes that have a default,
// which is what they are to become when the configuration leaves them out.
func Unchanged(prior, proposed *tfprotov6.DynamicValue) bool {
	return Exists(prior) && proposed != nil && bytes.Equal(prior.MsgPack, proposed.MsgPack)
}

// Upgraded answers with a state of the current schema as it is, which the
// framework would take apart and put together again; nil when it isn't one: when
// it doesn't have the attributes, or has others.
func Upgraded(state *tfprotov6.RawState, attributes []string) *tfprotov6.UpgradeResourceStateResponse {
	var m map[string]json.RawMessage
	if state == nil || json.Unmarshal(state.JSON, &m) != nil || len(m) != len(attributes) {
		return nil
	}
	for _, name := range attributes {
		if _, ok := m[name]; !ok {
			return nil
		}
	}
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &tfprotov6.DynamicValue{JSON: state.JSON}}
}
