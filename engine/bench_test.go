package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
)

// BenchmarkNoChanges plans a configuration that is applied: what a group of ten
// nodes costs when nothing has changed, without the providers' own work.
func BenchmarkNoChanges(b *testing.B) {
	var config strings.Builder
	config.WriteString(lab)
	for i := range 60 {
		fmt.Fprintf(&config, "resource \"lab_thing\" \"t%d\" {\n  name = \"t%d\"\n  tags = { a = \"1\", b = \"2\" }\n  spec = { image = \"i\", ports = [1, 2, 3] }\n}\n", i, i)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	lab, store := &enginetest.Lab{}, &enginetest.Store{}
	run := func(verb func(context.Context, *engine.Engine) error) {
		e, err := engine.New(context.Background(), engine.Options{
			Files:     map[string][]byte{"main.tf": []byte(config.String())},
			Providers: []engine.Provider{{Address: enginetest.Address, New: lab.Server}},
			State:     store, StateAddress: "http://state.example/", Stdout: null, Stderr: null,
		})
		if err == nil {
			err = verb(context.Background(), e)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	run(apply(engine.ApplyOptions{AutoApprove: true}))
	b.ReportAllocs()
	for b.Loop() {
		run(func(ctx context.Context, e *engine.Engine) error {
			changes, err := e.Plan(ctx, engine.PlanOptions{})
			if changes {
				err = fmt.Errorf("there are changes")
			}
			return err
		})
	}
}
