package random_test

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/random"
)

// A state of random_uuid of today is handed back as it is: it must have all
// attributes of the schema, or the engine refuses it.
func TestQuietState(t *testing.T) {
	s := random.Server("test")()
	schemas, err := s.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	typ := schemas.ResourceSchemas["random_uuid"].ValueType().(tftypes.Object)
	for name, state := range map[string]string{
		"today's":          `{"id":"u","keepers":{"a":"b"},"result":"u"}`,
		"without keepers":  `{"id":"u","result":"u"}`,
		"with another one": `{"id":"u","keepers":null,"result":"u","more":1}`,
	} {
		resp, err := s.UpgradeResourceState(context.Background(), &tfprotov6.UpgradeResourceStateRequest{
			TypeName: "random_uuid", RawState: &tfprotov6.RawState{JSON: []byte(state)},
		})
		if err != nil || len(resp.Diagnostics) > 0 {
			t.Fatalf("%s: %v %v", name, err, resp)
		}
		v, err := resp.UpgradedState.Unmarshal(typ)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var m map[string]tftypes.Value
		if err := v.As(&m); err != nil || !m["result"].Equal(tftypes.NewValue(tftypes.String, "u")) {
			t.Errorf("%s became %s", name, v)
		}
	}
}
