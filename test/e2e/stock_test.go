package e2e

import (
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// Nobody is locked in: stock tofu goes on where yuba stopped, and back.
func TestStockTofuOnTheSameState(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	web := func(content string) world.Node { return world.Node{Name: "web", Image: lab.Image{Content: content}} }
	w.Group(web("one"), world.Node{Name: "db", Image: lab.Image{Content: "one"}})
	w.Must(0, "k8s", "apply", "-auto-approve")

	stock := w.Stock()
	r := stock.Must(0, "plan", "-detailed-exitcode", "-no-color")
	if !strings.Contains(r.Stdout, "No changes.") {
		t.Errorf("stock tofu's plan of what yuba deployed: %v", r)
	}

	// They exclude each other, and each tells who holds the lock.
	lock := `{"ID":"a-lock","Operation":"OperationTypeApply","Who":"somebody@elsewhere","Version":"1.12.6","Created":"2026-01-02T03:04:05Z"}`
	if err := w.Request("LOCK", lock); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]world.Result{"tofu": stock.Must(1, "plan", "-no-color"), "yuba": w.Must(1, "k8s", "plan")} {
		if !strings.Contains(r.Stderr, "state lock") {
			t.Errorf("%s does not say that the state is locked: %v", name, r)
		}
	}
	if err := w.Request("UNLOCK", lock); err != nil {
		t.Fatal(err)
	}

	// Stock tofu deploys a change, of which yuba then finds nothing to do.
	before := w.Get("deployment/web", world.ImagePath)
	w.Group(web("two"), world.Node{Name: "db", Image: lab.Image{Content: "one"}})
	stock.Export()
	stock.Must(0, "apply", "-auto-approve", "-no-color")
	if after := w.Get("deployment/web", world.ImagePath); after == before {
		t.Error("stock tofu's apply did not change the node")
	}
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	stock.Must(0, "destroy", "-auto-approve", "-no-color")
	w.Unchanged()

	// And back: yuba finds nothing to do for what stock tofu has deployed,
	// changes it, and ends it.
	stock.Must(0, "apply", "-auto-approve", "-no-color")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	w.Group(web("three"), world.Node{Name: "db", Image: lab.Image{Content: "one"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	stock.Export()
	stock.Must(0, "plan", "-detailed-exitcode", "-no-color")
	w.Must(0, "k8s", "destroy", "-auto-approve")
	w.Unchanged()
	if left := stock.Must(0, "state", "list").Stdout; left != "" {
		t.Errorf("after yuba's destroy, stock tofu has %s", left)
	}
}
