package canary

import (
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

func TestFormsOfASecretAreFound(t *testing.T) {
	c := Secrets{"password": "canary-of-the-test"}
	for _, text := range []string{"canary-of-the-test", "user:canary-of-the-test", "me:canary-of-the-test!", `{"a":"canary-of-the-test"}`} {
		for _, data := range []string{text, base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text))} {
			if len(c.Found([]byte(data))) != 1 {
				t.Errorf("the secret in %q is not found", data)
			}
		}
	}
}

func TestChildAndSecretsOfAProcessAreSeen(t *testing.T) {
	c := Secrets{"password": "canary-of-the-other-test", "argument": "canary-of-this-test"}
	cmd := exec.Command(world.Program(t), "state", "passwd", c["argument"])
	cmd.Env = []string{"PASSWORD=" + c["password"]}
	stdin, err := cmd.StdinPipe() // it waits for the password
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	for _, want := range []string{"yuba has a child", "[argument]: in the arguments", "[password]: in the environment"} {
		world.Eventually(t, want, func() bool {
			wrong, err := c.Look(os.Getpid(), map[int]int{})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(strings.Join(wrong, "\n"), want)
		})
	}
}
