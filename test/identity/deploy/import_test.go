package deploy

import (
	"testing"

	"fediversity.eu/yuba/test/lab"
)

// A hand-off that the state has lost is imported by its namespace, here by stock tofu, and then handed over again in
// place: nothing is taken back.
func TestImport(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	h.Must(0, "k8s", "apply", "-auto-approve")
	before := h.generations()
	stock := h.Stock()
	stock.Must(0, "state", "rm", "spire_handoff.this")
	stock.Must(0, "import", "-no-color", "spire_handoff.this", h.Namespace)
	h.plans("spire_handoff.this update")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("web")
	h.plans()
	if got := h.generations(); got != before {
		t.Errorf("an import changed\n%s\nto\n%s", before, got)
	}

	// A destroy takes it back, also when nothing but the hand-off was imported, or is from before there was a
	// spire_namespace, and no apply has made one.
	stock.Must(0, "state", "rm", "spire_handoff.this", "spire_namespace.this")
	stock.Must(0, "import", "-no-color", "spire_handoff.this", h.Namespace)
	h.plans("spire_handoff.this update", "spire_namespace.this create")
	h.Must(0, "k8s", "destroy", "-auto-approve")
	h.handed()
}
