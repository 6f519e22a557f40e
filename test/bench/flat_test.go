package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fediversity.eu/yuba/test/world"
)

// A no-op plan of objects that have nothing to do with each other: what an
// object costs, and how that grows. Of 2,000 also against stock tofu with the
// same provider as its plugin. What core itself costs is in the plan of as many
// terraform_data, whose provider is a part of core.
func BenchmarkFlat(b *testing.B) {
	cpus := map[int]float64{}
	for _, n := range []int{500, 2000, 5000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			w := world.New(b)
			dir := objects(b, w, n)
			for b.Loop() {
				cpus[n] = plans(b, w, dir, n, n == 2000)
				if cpus[500] > 0 && n > 500 {
					b.ReportMetric(math.Log(cpus[n]/cpus[500])/math.Log(float64(n)/500), "exponent")
				}
			}
		})
	}
	b.Run("core=2000", func(b *testing.B) {
		w := world.New(b)
		dir := filepath.Join(w.Dir, "flat")
		var config strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&config, "resource \"terraform_data\" \"%s\" {\n  input = { key = \"value %d\", other = \"some text\" }\n}\n", name(i), i)
		}
		write(b, filepath.Join(dir, "main.tf"), []byte(config.String()))
		in(w, dir, "apply", "-auto-approve", "-parallelism=30")
		for b.Loop() {
			plans(b, w, dir, 2000, true)
		}
	})
}

// plans measures no-op plans in a folder, in turns with stock tofu if that is
// asked for, and returns yuba's CPU seconds.
func plans(b *testing.B, w *world.World, dir string, n int, compare bool) float64 {
	b.Helper()
	var yuba, tofu []cost
	var stock *world.Stock
	if compare {
		stock = w.StockIn(dir)
	}
	for range 2 {
		cmd := w.Command("plan", "-detailed-exitcode")
		cmd.Dir = dir
		yuba = append(yuba, measure(b, cmd))
		if compare {
			tofu = append(tofu, measure(b, stock.Command("plan", "-detailed-exitcode")))
		}
	}
	report(b, "", yuba, tofu)
	seconds := median(yuba, cpu).Seconds()
	b.ReportMetric(seconds*1000/float64(n), "yuba-cpu-ms/object")
	return seconds
}

func name(i int) string { return fmt.Sprintf("flat-%05d", i) }

// manifest has the name wherever objects differ.
func manifest(namespace, name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"app": "flat", "of": name}},
		"data":     map[string]any{"key": "value of " + name, "other": "some text", "config": "a = 1\nb = 2\n"},
	}
}

// objects makes n objects with a configuration and a state of them, in a folder
// for yuba and stock tofu. The objects are applied past the program, at once; the
// state is the one that it makes for the first of them, said of all.
func objects(b *testing.B, w *world.World, n int) (dir string) {
	b.Helper()
	dir = filepath.Join(w.Dir, "flat")
	w.Kubectl("create", "namespace", w.Namespace)
	client := w.Lab.Client(b).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(w.Namespace)
	uids := make([]string, n)
	var work errgroup.Group
	work.SetLimit(32)
	for i := range n {
		work.Go(func() error {
			o := &unstructured.Unstructured{Object: manifest(w.Namespace, name(i))}
			o, err := client.Apply(context.Background(), name(i), o, meta.ApplyOptions{FieldManager: "yuba"})
			if err == nil {
				uids[i] = string(o.GetUID())
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		b.Fatal(err)
	}
	const provider = "terraform {\n  required_providers {\n    kubernetes = { source = \"fediversity/kubernetes\" }\n  }\n}\n"
	config := []string{provider}
	for i := range n {
		text, err := json.MarshalIndent(manifest(w.Namespace, name(i)), "  ", "  ")
		if err != nil {
			b.Fatal(err)
		}
		config = append(config, fmt.Sprintf("resource \"kubernetes_object\" \"%s\" {\n  manifest = %s\n}\n", name(i), text))
	}
	write(b, filepath.Join(dir, "main.tf"), []byte(config[0]+config[1]))
	in(w, dir, "apply", "-auto-approve")
	file := filepath.Join(dir, "terraform.tfstate")
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var state map[string]json.RawMessage
	var resources []json.RawMessage
	if json.Unmarshal(data, &state) != nil || json.Unmarshal(state["resources"], &resources) != nil || len(resources) != 1 {
		b.Fatalf("this is no state of one object:\n%s", data)
	}
	one := resources[0]
	for i := range n - 1 {
		r := bytes.ReplaceAll(one, []byte(name(0)), []byte(name(i+1)))
		resources = append(resources, bytes.ReplaceAll(r, []byte(uids[0]), []byte(uids[i+1])))
	}
	if state["resources"], err = json.Marshal(resources); err != nil {
		b.Fatal(err)
	}
	if data, err = json.MarshalIndent(state, "", "  "); err != nil {
		b.Fatal(err)
	}
	write(b, file, data)
	write(b, filepath.Join(dir, "main.tf"), []byte(strings.Join(config, "")))
	return dir
}

func write(b *testing.B, file string, data []byte) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// in runs a command in a folder that must succeed.
func in(w *world.World, dir string, args ...string) {
	w.Must(0, append([]string{"-chdir=" + dir}, args...)...)
}
