// Package migrate holds the tests of docs/migrate.md: a group that runs already,
// made by kubectl or by stock tofu that calls programs, becomes yuba's, and
// its pods, volumes and machine IDs stay.
package migrate

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

const uuidPath = `.spec.template.spec.containers[0].env[?(@.name=="container_uuid")].value`

func node(content string) world.Node {
	return world.Node{Name: "web", Image: lab.Image{Content: content}}
}

// says fails unless the text has all of these words.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	flat := world.Unwrapped(text)
	for _, word := range words {
		if !strings.Contains(flat, word) {
			t.Errorf("it does not say %q:\n%s", word, text)
		}
	}
}

// write makes a file, which may be a program, and its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// running is what must stay of a node.
type running struct{ pod, deployment, claim, volume, machine string }

func look(w *world.World) running {
	return running{
		w.Get("pods", ".items[*].metadata.uid"), w.Get("deployment/web", ".metadata.uid"),
		w.Get("pvc/web-state", ".metadata.uid"), w.Get("pvc/web-state", ".spec.volumeName"), w.Get("deployment/web", uuidPath),
	}
}

// old are the manifests that a node of the other method has: those of yuba's,
// with change applied to the Deployment. They are in the cluster no more; the
// image is in the registry.
func old(t *testing.T, w *world.World, change func(deployment map[string]any)) (namespace, objects string) {
	t.Helper()
	state := w.Env["TF_HTTP_ADDRESS"]
	w.Env["TF_HTTP_ADDRESS"] += "-model"
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Env["TF_HTTP_ADDRESS"] = state
	var list []string
	for _, name := range []string{"namespace/" + w.Namespace, "networkpolicy/same-namespace", "pvc/web-state", "deployment/web"} {
		var o map[string]any
		if err := json.Unmarshal([]byte(w.Kubectl("get", name, "-n", w.Namespace, "-o", "json")), &o); err != nil {
			t.Fatal(err)
		}
		delete(o, "status")
		o["metadata"] = map[string]any{"name": o["metadata"].(map[string]any)["name"]}
		delete(o["spec"].(map[string]any), "volumeName")
		if o["kind"] == "Deployment" && change != nil {
			change(o)
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(data))
	}
	w.Kubectl("delete", "namespace", w.Namespace)
	return list[0], strings.Join(list[1:], "\n---\n")
}

// kubectl is kubectl on the lab, with manifests on its standard input.
func kubectl(t *testing.T, w *world.World, input string, args ...string) {
	t.Helper()
	program, err := lab.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Lab.Kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
}

// ways are how kubectl makes objects, and the field manager that it is then.
var ways = map[string][]string{
	"kubectl-client-side-apply": {"apply"},
	"kubectl-create":            {"create"},
	"ops":                       {"apply", "--server-side", "--field-manager=ops"},
}

func start(t *testing.T, w *world.World, way []string, namespace, objects string) running {
	t.Helper()
	for _, manifests := range []string{namespace, objects} {
		kubectl(t, w, manifests, append(way[:len(way):len(way)], "-n", w.Namespace, "-f", "-")...)
	}
	w.Kubectl("rollout", "status", "deployment/web", "-n", w.Namespace)
	return look(w)
}

// Objects whose pods are as yuba's become yuba's, and nothing is replaced.
func TestSameTemplate(t *testing.T) {
	t.Parallel()
	for manager, way := range ways {
		t.Run(manager, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Group(node("one"))
			namespace, objects := old(t, w, nil)
			before := start(t, w, way, namespace, objects)

			// Without the machine ID, the plan says what would become of the pod.
			says(t, w.Must(2, "k8s", "plan", "-detailed-exitcode").Stderr,
				"Deployment "+w.Namespace+"/web exists and will be adopted, and its pods may be replaced", "field managers are "+manager,
				`.spec.template.spec.containers[name="node"].env[name="container_uuid"].value`)
			w.Must(0, "k8s", "import", "random_uuid.node_web", before.machine)
			r := w.Must(2, "k8s", "plan", "-detailed-exitcode")
			says(t, r.Stderr, "Deployment "+w.Namespace+"/web exists and will be adopted with kubernetes_object.deployment_web", "PersistentVolumeClaim "+w.Namespace+"/web-state exists and will be adopted",
				"All that changes: .metadata.labels")
			if strings.Contains(r.Stderr+r.Stdout, "replaced") {
				t.Errorf("the plan speaks of something that is replaced:\n%s", r.Stderr)
			}
			w.Must(0, "k8s", "apply", "-auto-approve")
			if after := look(w); after != before {
				t.Errorf("there was %+v and is %+v", before, after)
			}
			w.Must(0, "k8s", "plan", "-detailed-exitcode")

			// Who applies by the server stays an owner of what it has applied.
			w.Group(node("two"))
			if manager == "ops" {
				says(t, w.Must(1, "k8s", "apply", "-auto-approve").Stderr, `owned by "ops"`, "KUBE_FORCE_CONFLICTS=true")
				w.Env["KUBE_FORCE_CONFLICTS"] = "true"
			}
			w.Must(0, "k8s", "apply", "-auto-approve")
			delete(w.Env, "KUBE_FORCE_CONFLICTS")
			w.Group(node("three"))
			w.Must(0, "k8s", "apply", "-auto-approve")
			w.Must(0, "k8s", "plan", "-detailed-exitcode")
			after := look(w)
			if before.pod = after.pod; after != before {
				t.Errorf("after two changes there was %+v and is %+v", before, after)
			}
			w.Must(0, "k8s", "destroy", "-auto-approve")
			w.Unchanged()
		})
	}
}

// Where the pods differ, the plan says so, all but the Deployment can be adopted
// first, and the pod is replaced when its image changes.
func TestOtherTemplate(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("one"))
	namespace, objects := old(t, w, func(d map[string]any) {
		template := d["spec"].(map[string]any)["template"].(map[string]any)
		template["metadata"].(map[string]any)["labels"] = map[string]any{"app.kubernetes.io/name": "web"}
		template["spec"].(map[string]any)["terminationGracePeriodSeconds"] = 30
	})
	before := start(t, w, ways["kubectl-client-side-apply"], namespace, objects)
	w.Must(0, "k8s", "import", "random_uuid.node_web", before.machine)
	says(t, w.Must(1, "k8s", "plan").Stderr, ".spec.template.spec.terminationGracePeriodSeconds", `owned by "kubectl-client-side-apply"`, "KUBE_FORCE_CONFLICTS=true")
	w.Env["KUBE_FORCE_CONFLICTS"] = "true"
	says(t, w.Must(0, "k8s", "plan").Stderr, "Deployment "+w.Namespace+"/web exists and will be adopted, and its pods are replaced",
		".spec.template.spec.terminationGracePeriodSeconds", ".spec.template.metadata.labels.app.kubernetes.io/managed-by")

	without := []string{"-exclude=kubernetes_object.deployment_web", "-exclude=kubernetes_rollout.node_web"}
	w.Must(0, append([]string{"k8s", "apply", "-auto-approve"}, without...)...)
	if after := look(w); after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
	if got := w.Get("pvc/web-state", `.metadata.labels.app\.kubernetes\.io/managed-by`); got != "yuba" {
		t.Error("the claim was not adopted")
	}
	w.Group(node("two"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	after := look(w)
	if after.pod == before.pod {
		t.Error("the new image does not run")
	}
	if before.pod = after.pod; after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
	delete(w.Env, "KUBE_FORCE_CONFLICTS")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// What can't be changed in place is refused by the plan, before anything is.
func TestWhatCannotBeAdopted(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("one"))
	namespace, objects := old(t, w, func(d map[string]any) {
		spec := d["spec"].(map[string]any)
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": "web"}}
		spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)["app"] = "web"
	})
	before := start(t, w, ways["kubectl-client-side-apply"], namespace, objects)
	w.Must(0, "k8s", "import", "random_uuid.node_web", before.machine)
	w.Env["KUBE_FORCE_CONFLICTS"] = "true"
	says(t, w.Must(1, "k8s", "plan").Stderr, "Deployment "+w.Namespace+"/web exists and can't be adopted", "spec.selector")
	w.Must(1, "k8s", "apply", "-auto-approve")
	if after := look(w); after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
	// Nor is the volume given up for a group file that wants another one.
	w.Kubectl("delete", "deployment", "web", "-n", w.Namespace)
	w.Edit(func(g map[string]any) { g["storage"] = map[string]any{"class": "other", "size": "1Gi"} })
	says(t, w.Must(1, "k8s", "plan").Stderr, "PersistentVolumeClaim "+w.Namespace+"/web-state exists and can't be adopted", `"StorageClassName": "other"`)
	w.Edit(func(g map[string]any) { g["storage"] = map[string]any{"class": "standard", "size": "1Gi"} })
	w.Must(0, "k8s", "apply", "-auto-approve")
	after := look(w)
	if before.pod, before.deployment = after.pod, after.deployment; after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
}

// The OpenTofu method: stock tofu with a state of its own, skopeo and kubectl
// as programs. yuba goes on with the same state.
func TestStockTofuWithPrograms(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("one"))
	namespace, objects := old(t, w, nil)
	objects = strings.ReplaceAll(objects, container(t, objects)["image"].(string), "IMAGE")
	objects = replaceMachine(t, objects, "UUID")

	dir := filepath.Join(w.Dir, "old")
	archive := lab.Archive(t, lab.Image{Content: "one"})
	program, err := lab.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.tf": fmt.Sprintf(`
terraform {
  required_providers {
    random = { source = "hashicorp/random" }
  }
  backend "http" {}
}

resource "random_uuid" "machine_id" {
  for_each = toset(["web"])
}

resource "terraform_data" "push" {
  triggers_replace = ["one"]
  provisioner "local-exec" {
    command = "skopeo --policy policy.json copy --dest-tls-verify=false --digestfile web.digest docker-archive:%[1]s docker://%[2]s/%[3]s/web:old"
  }
}

resource "terraform_data" "objects" {
  triggers_replace = [terraform_data.push.id]
  provisioner "local-exec" {
    command = "kubectl apply -f namespace.json && sed -e 's,IMAGE,%[2]s/%[3]s/web@'$(cat web.digest)',;s,UUID,${random_uuid.machine_id["web"].result},' objects.json | kubectl apply -n %[3]s -f -"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "kubectl delete namespace %[3]s"
  }
}

resource "terraform_data" "rollout" {
  triggers_replace = [terraform_data.objects.id]
  provisioner "local-exec" {
    command = "kubectl rollout status -n %[3]s deployment/web"
  }
}
`, archive, w.Lab.Registry, w.Namespace),
		"namespace.json": namespace, "objects.json": objects,
		"policy.json": `{"default":[{"type":"insecureAcceptAnything"}]}`,
		"bin/kubectl": "#!/bin/sh\nexec " + program + " kubectl \"$@\"\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	w.Env["PATH"], w.Env["KUBECONFIG"] = filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), w.Lab.Kubeconfig
	w.Env["HOME"] = t.TempDir()
	stock := w.StockIn(dir)
	stock.Must(0, "apply", "-auto-approve", "-no-color")
	before := look(w)
	digest, err := os.ReadFile(filepath.Join(dir, "web.digest"))
	if err != nil {
		t.Fatal(err)
	}

	// As the page says: the tag is the one that skopeo pushed.
	one := node("one")
	one.Tag = "old"
	w.Group(one)
	w.Must(0, "state", "mv", `random_uuid.machine_id["web"]`, "random_uuid.node_web")
	w.Must(0, "state", "rm", "terraform_data.push", "terraform_data.objects", "terraform_data.rollout")
	r := w.Must(0, "k8s", "plan")
	says(t, r.Stderr, "Deployment "+w.Namespace+"/web exists and will be adopted with kubernetes_object.deployment_web")
	says(t, r.Stdout, "Plan: 6 to add, 0 to change, 0 to destroy.")
	w.Must(0, "k8s", "apply", "-auto-approve")
	if after := look(w); after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
	if got := w.Get("deployment/web", world.ImagePath); !strings.HasSuffix(got, "@"+string(digest)) {
		t.Errorf("skopeo pushed %s, and the Deployment has %s", digest, got)
	}
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	w.Group(node("two"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	after := look(w)
	if before.pod = after.pod; after != before {
		t.Errorf("after a change there was %+v and is %+v", before, after)
	}
}

// A configuration of one's own imports an object, and shows what changes of it.
func TestImportBlock(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("one"))
	namespace, objects := old(t, w, nil)
	before := start(t, w, ways["kubectl-client-side-apply"], namespace, objects)
	manifest := strings.Replace(deployment(objects), `"metadata":{"name":"web"}`, `"metadata":{"name":"web","namespace":"`+w.Namespace+`","labels":{"team":"shop"}}`, 1)
	for name, text := range map[string]string{
		"web.yaml": manifest,
		"main.tf": `
terraform {
  required_providers {
    kubernetes = { source = "registry.opentofu.org/fediversity/kubernetes" }
  }
  backend "http" {}
}

import {
  to = kubernetes_object.web
  id = "apiVersion=apps/v1,kind=Deployment,namespace=` + w.Namespace + `,name=web"
}

resource "kubernetes_object" "web" {
  manifest = yamldecode(file("web.yaml"))
}
`,
	} {
		write(t, filepath.Join(w.Dir, "own", name), text)
	}
	says(t, w.Must(2, "-chdir=own", "plan", "-detailed-exitcode", "-no-color").Stdout, "Plan: 1 to import, 0 to add, 1 to change, 0 to destroy.", `+ team = "shop"`)
	w.Must(0, "-chdir=own", "apply", "-auto-approve")
	if after := look(w); after != before {
		t.Errorf("there was %+v and is %+v", before, after)
	}
	w.Must(0, "-chdir=own", "plan", "-detailed-exitcode")
}

// deployment is the last one of the manifests.
func deployment(objects string) string { return objects[strings.LastIndex(objects, "\n---\n")+5:] }

// container is that of the Deployment.
func container(t *testing.T, objects string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(deployment(objects)), &o); err != nil {
		t.Fatal(err)
	}
	return o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

func replaceMachine(t *testing.T, objects, by string) string {
	t.Helper()
	for _, e := range container(t, objects)["env"].([]any) {
		if e := e.(map[string]any); e["name"] == "container_uuid" {
			return strings.ReplaceAll(objects, e["value"].(string), by)
		}
	}
	t.Fatal("the Deployment has no container_uuid")
	return ""
}
