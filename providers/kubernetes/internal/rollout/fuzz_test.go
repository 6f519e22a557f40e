package rollout

import (
	"strings"
	"testing"
	"time"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Whatever a cluster says, there is a verdict, with a message of one line, and
// soon.
func FuzzDeployment(f *testing.F) {
	for _, p := range []string{
		readyPod, waitingPod(`"state":{"waiting":{"reason":"CrashLoopBackOff"}},"restartCount":9`), `{}`,
		`{"status":{"containerStatuses":[[],null,{}]}}`, waits("ErrImagePull", resolve+strings.Repeat(`failed to resolve reference "`, 99)),
		`{"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"x"}},null]},"status":{"conditions":[{"type":"PodScheduled","status":"False"}]}}`,
	} {
		f.Add(complete, p, `{"spec":{"template":null}}`)
		f.Add(incomplete, p, `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}],"phase":"Lost"},"spec":{"storageClassName":1}}`)
	}
	f.Fuzz(func(t *testing.T, status, podRest, other string) {
		var st, pr, rs Object
		if kjson.Unmarshal([]byte(status), &st) != nil || kjson.Unmarshal([]byte(podRest), &pr) != nil || kjson.Unmarshal([]byte(other), &rs) != nil || rs == nil {
			return
		}
		related := map[Ref]Object{{"Node", "n1"}: rs, {"PersistentVolumeClaim", "x"}: rs, {"StorageClass", "x"}: rs}
		d := deployment(t, `{}`, `{}`)
		d["status"] = st
		set := Object{"spec": rs["spec"], "status": rs["status"], "metadata": newSet(t)["metadata"]}
		s := Snapshot{Deployment: d, ReplicaSets: []Object{set, newSet(t)}, Pods: []Object{pr, pod(t, "p", "web-new", `{}`)}, Events: []Object{pr, rs}, Related: related}
		if pr != nil {
			pr["metadata"] = parse(t, `{"uid":"x","ownerReferences":[{"controller":true,"uid":"web-new"}]}`)
		}
		started := time.Now()
		v := Deployment(s, "d", 2)
		if v.Message == "" || strings.Contains(v.Message, "\n") {
			t.Errorf("message %q", v.Message)
		}
		Needs(s)
		if took := time.Since(started); took > time.Minute {
			t.Errorf("%v for %d bytes", took, len(status)+len(podRest)+len(other))
		}
		// With each of its verdicts the wait comes to an end.
		p := Patience{Grace: time.Second}
		now := time.Unix(0, 0)
		if p.Judge(v, now); v.Stuck != "" && !v.Held && p.Judge(v, now.Add(time.Second)).State != Failed {
			t.Error("a reason that lasts is no failure")
		}
	})
}
