package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// seen remembers what events were written for, so that each is written once.
type seen struct {
	sync.Mutex
	by     map[types.UID]string    // the state the pod was in
	probed map[types.UID]time.Time // the last failing probe
}

// news says whether the pod's containers are in another state than at the
// last call.
func (s *seen) news(pod *core.Pod) bool {
	var b strings.Builder
	fmt.Fprint(&b, pod.DeletionTimestamp != nil)
	for _, c := range pod.Status.ContainerStatuses {
		switch st := c.State; {
		case st.Waiting != nil:
			fmt.Fprint(&b, " ", st.Waiting.Reason, c.RestartCount)
		case st.Running != nil:
			fmt.Fprint(&b, " running", c.RestartCount)
		case st.Terminated != nil:
			fmt.Fprint(&b, " terminated", c.RestartCount)
		}
	}
	s.Lock()
	defer s.Unlock()
	old := s.by[pod.UID]
	s.by[pod.UID] = b.String()
	return old != b.String()
}

// due says whether the pod's last failing probe is that long ago; then the
// clock starts again.
func (s *seen) due(uid types.UID, every time.Duration) bool {
	s.Lock()
	defer s.Unlock()
	now := time.Now()
	if now.Sub(s.probed[uid]) < every {
		return false
	}
	s.probed[uid] = now
	return true
}

// forget drops a pod that is gone.
func (s *seen) forget(uid types.UID) {
	s.Lock()
	defer s.Unlock()
	delete(s.by, uid)
	delete(s.probed, uid)
}
