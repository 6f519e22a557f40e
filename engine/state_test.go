package engine_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

func push(path string, force bool) func(context.Context, *engine.Engine) error {
	return func(ctx context.Context, e *engine.Engine) error { return e.StatePush(ctx, path, force) }
}

func pull(ctx context.Context, e *engine.Engine) error { return e.StatePull(ctx) }

// A state that can't be stored isn't lost, and the message says what to do.
func TestLostWrite(t *testing.T) {
	for name, encryption := range map[string]string{"plain": "", "encrypted": staticKey} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.set = func(o *engine.Options) { o.Encryption = encryption }
			b.store.OnPut = func() error { return errors.New("507 insufficient storage") }
			p := b.fails(b.apply(one))
			has(t, p.err, "507 insufficient storage", `has been written to the file "errored.tfstate"`, "yuba state push errored.tfstate", `Running "yuba apply" again`)
			lacks(t, p.err, "tofu state", "tofu apply")
			b.free()
			fi, err := os.Stat("errored.tfstate")
			if err != nil {
				t.Fatal(err)
			}
			if fi.Mode().Perm() != 0o600 {
				t.Errorf("errored.tfstate has mode %s", fi.Mode())
			}
			content, err := os.ReadFile("errored.tfstate")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(content), "thing-a") == (encryption != "") {
				t.Errorf("errored.tfstate isn't as the encryption settings have it: %.80s", content)
			}

			b.store.OnPut = nil
			b.ok(b.run(one, push("errored.tfstate", false)))
			b.free()
			changes, p := b.plan(one, engine.PlanOptions{})
			if b.ok(p); changes {
				t.Error("the pushed state isn't what was applied")
			}
		})
	}
}

// A second lost state doesn't take the place of the first.
func TestLostTwice(t *testing.T) {
	b := newBench(t)
	b.store.OnPut = func() error { return errors.New("507 insufficient storage") }
	b.fails(b.apply(one))
	first, err := os.ReadFile("errored.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	second := b.fails(b.apply(three))
	kept, err := os.ReadFile("errored.tfstate.1")
	if err != nil || string(kept) != string(first) {
		t.Errorf("%v: the first one is %.80q", err, kept)
	}
	has(t, second.err, "There was an errored.tfstate from an earlier run, which is in errored.tfstate.1 now")
	last, err := os.ReadFile("errored.tfstate")
	if err != nil || len(objectsIn(t, string(last))) != 3 {
		t.Errorf("%v: the second one is %.80q", err, last)
	}
}

// Where no file can be written, the state is printed.
func TestLostWriteWithoutFile(t *testing.T) {
	b := newBench(t)
	if err := os.Mkdir("errored.tfstate", 0o700); err != nil {
		t.Fatal(err)
	}
	b.store.OnPut = func() error { return errors.New("507 insufficient storage") }
	p := b.fails(b.apply(one))
	has(t, p.err, `"thing-a"`, "yuba state push errored.tfstate")
	b.free()
}

// OpenTofu says that it wrote errored.tfstate also where no file can be made:
// in a container with a read-only root, or here in a directory that is gone.
func TestLostWriteWhereNoFileCanBeMade(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		b := newBench(t)
		dir, err := os.Getwd()
		if err == nil {
			err = os.Remove(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.store.OnPut = func() error { return errors.New("507 insufficient storage") }
		b.set = func(o *engine.Options) { o.JSON = asJSON }
		p := b.fails(b.apply(one))
		has(t, p.out+p.err, "thing-a", "It is printed above", "yuba state push errored.tfstate")
		lacks(t, p.out+p.err, "has been written to the file")
		b.free()
	}
}

// Of these c is made when the first attempt to store a is over, and b never.
const lostFirst = lab + `
resource "lab_thing" "a" { name = "a" }
resource "lab_thing" "b" { name = lab_thing.a.id }
resource "lab_thing" "c" { name = "c" }
`

// loseFirst lets the first state of a run be stored or not, and its answer be
// lost; then happens, and the run goes on with c.
func (b *bench) loseFirst(stored bool, then func()) {
	begun, lost, tries := make(chan struct{}), make(chan struct{}), 0
	lose := func() error {
		if tries++; tries > 1 {
			return nil
		}
		then()
		close(lost)
		return errors.New("connection reset, and asking failed too")
	}
	if stored {
		b.store.AfterPut = lose
	} else {
		b.store.OnPut = lose
	}
	b.lab.On = func(_ context.Context, method, name string) error {
		switch {
		case method == "Create" && name == "a":
			<-begun
		case method == "Create" && name == "c":
			close(begun)
			<-lost
		}
		return nil
	}
	b.set = func(o *engine.Options) { o.Precious = map[string][]string{"lab_thing": {"lab_thing"}} }
}

// A write that fails once and works at the end leaves no file behind, and one
// that was there is as it was.
func TestErroredStateIsNotLeftBehind(t *testing.T) {
	for _, earlier := range []string{"", "the only record"} {
		b := newBench(t)
		if earlier != "" {
			if err := os.WriteFile("errored.tfstate", []byte(earlier), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.loseFirst(false, func() {})
		b.fails(b.apply(lostFirst))
		if got := b.objects(); len(got) != 2 {
			t.Errorf("the state has %v", got)
		}
		if content, err := os.ReadFile("errored.tfstate"); string(content) != earlier || (err == nil) != (earlier != "") {
			t.Errorf("errored.tfstate is %q (%v), and was %q", content, err, earlier)
		}
		if _, err := os.Stat("errored.tfstate.1"); err == nil {
			t.Error("errored.tfstate.1 was left")
		}
	}
}

// The server has stored the first state of all, and nobody has heard of it. What
// was made since is in the state of the end.
func TestLostAnswerToTheFirstWrite(t *testing.T) {
	b := newBench(t)
	b.loseFirst(true, func() {})
	b.fails(b.apply(lostFirst))
	if got := b.objects(); got["lab_thing.a"] == nil || got["lab_thing.c"] == nil {
		t.Errorf("the state has %v", got)
	}
	b.free()
	b.lab.On = nil
	b.ok(b.apply(lostFirst))
}

// Then the server stays away: the command that the error advises stores what was
// made since, from the file, and from what is printed where no file can be made.
func TestLostAnswerToTheFirstWriteOfAServerThatIsGone(t *testing.T) {
	for _, printed := range []bool{false, true} {
		lostAnswerOfAServerThatIsGone(t, printed)
	}
}

func lostAnswerOfAServerThatIsGone(t *testing.T, printed bool) {
	b := newBench(t)
	b.loseFirst(true, func() {
		b.store.OnGet = func(context.Context) error { return errors.New("no route to host") }
		b.store.OnPut = func() error { return errors.New("no route to host") }
	})
	file := "errored.tfstate"
	if printed {
		if err := os.Mkdir(file, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := b.fails(b.apply(lostFirst))
	has(t, p.err, "yuba state push errored.tfstate")
	if printed {
		line, _, _ := strings.Cut(p.err[strings.Index(p.err, "\n{")+1:], "\n")
		file = "printed"
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.store.OnGet, b.store.OnPut, b.lab.On = nil, nil, nil
	b.ok(b.run(lostFirst, push(file, false)))
	if got := b.objects(); got["lab_thing.a"] == nil || got["lab_thing.c"] == nil {
		t.Errorf("the state has %v", got)
	}
	b.ok(b.apply(lostFirst))
}

// Another run's state, where there was none, is neither overwritten nor taken
// for this run's.
func TestAnotherRunsFirstState(t *testing.T) {
	theirs := newBench(t)
	theirs.ok(theirs.apply(one))
	b := newBench(t)
	b.set = func(o *engine.Options) { o.NoLock = true }
	b.lab.On = func(ctx context.Context, method, _ string) error {
		if method == "Create" {
			return b.store.Put(ctx, []byte(theirs.store.State()))
		}
		return nil
	}
	has(t, b.fails(b.apply(lab+`resource "lab_thing" "z" { name = "z" }`)).err, "where there was none when this run began", "errored.tfstate")
	if b.store.State() != theirs.store.State() {
		t.Error("their state was overwritten")
	}
	kept, err := os.ReadFile("errored.tfstate")
	if err != nil || objectsIn(t, string(kept))["lab_thing.z"] == nil {
		t.Errorf("%v: errored.tfstate is %.80q", err, kept)
	}
}

const staticKey = `
key_provider "static" "k" { key = "6f6f706830656f67686f6834616872756f3751756165686565796f6f72653169" }
method "aes_gcm" "m" { keys = key_provider.static.k }
state {
  method   = method.aes_gcm.m
  enforced = true
}
plan {
  method   = method.aes_gcm.m
  enforced = true
}
`

func TestEncryption(t *testing.T) {
	for name, config := range map[string]string{
		"static": staticKey,
		"pbkdf2": strings.NewReplacer(`"static"`, `"pbkdf2"`, "key_provider.static", "key_provider.pbkdf2", `key = "6f6f`, `passphrase = "6f6f`).Replace(staticKey),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.set = func(o *engine.Options) { o.Encryption = config }
			_, p := b.plan(one, engine.PlanOptions{Out: "p.tfplan"})
			b.ok(p)
			plan, err := os.ReadFile("p.tfplan")
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(plan), "PK") {
				t.Error("the plan file isn't encrypted")
			}
			b.ok(b.run(one, apply(engine.ApplyOptions{PlanFile: "p.tfplan"})))
			lacks(t, b.store.State(), "thing-a")
			has(t, b.ok(b.run(one, pull)).out, "thing-a")
			changes, p := b.plan(one, engine.PlanOptions{})
			if b.ok(p); changes {
				t.Error("changes after an apply")
			}
			b.set = func(*engine.Options) {}
			b.fails(b.run(one, pull)) // not without the key
		})
	}
	t.Run("in the configuration", func(t *testing.T) {
		b := newBench(t)
		b.ok(b.apply(one + "terraform {\n encryption {" + staticKey + "}\n}\n"))
		lacks(t, b.store.State(), "thing-a")
	})
	t.Run("migration warns", func(t *testing.T) {
		b := newBench(t)
		b.set = func(o *engine.Options) {
			o.Encryption = "method \"unencrypted\" \"u\" {}\nstate { method = method.unencrypted.u }\n"
		}
		_, p := b.plan(one, engine.PlanOptions{})
		has(t, b.ok(p).err, "Unencrypted method configured")
	})
}

// Key providers that aren't linked say so.
func TestEncryptionThatCannotBeHad(t *testing.T) {
	with := func(block string) string {
		return block + `
method "aes_gcm" "m" { keys = key_provider.KIND.k }
state { method = method.aes_gcm.m }
`
	}
	for kind, c := range map[string]struct{ block, want string }{
		"aws_kms":     {"key_provider \"aws_kms\" \"k\" {\n kms_key_id = \"x\"\n region = \"eu-west-1\"\n key_spec = \"AES_256\"\n}", "key provider aws_kms is not linked into this program; linked are: pbkdf2, openbao, external"},
		"gcp_kms":     {"key_provider \"gcp_kms\" \"k\" {\n kms_encryption_key = \"x\"\n key_length = 32\n}", "key provider gcp_kms is not linked into this program"},
		"azure_vault": {"key_provider \"azure_vault\" \"k\" {\n vault_uri = \"https://vault-one.vault.azure.net\"\n vault_key_name = \"key-one\"\n key_length = 32\n}", "key provider azure_vault is not linked into this program"},
		"external":    {"key_provider \"external\" \"k\" {\n command = [\"x\"]\n}", "executable file not found"},
		"nonsense":    {"key_provider \"nonsense\" \"k\" {}", "nonsense"},
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			b.set = func(o *engine.Options) { o.Encryption = strings.ReplaceAll(with(c.block), "KIND", kind) }
			p := b.apply(one)
			if p.failure == nil {
				t.Fatal("it was applied")
			}
			has(t, p.failure.Error()+p.err, c.want)
			if b.store.State() != "" {
				t.Error("a state was written")
			}
		})
	}
}

func TestStatePush(t *testing.T) {
	b := newBench(t)
	b.ok(b.apply(one))
	mine := b.store.State()
	older := strings.Replace(mine, `"serial":1`, `"serial":0`, 1)
	other := strings.Replace(mine, `"lineage":"`, `"lineage":"0`, 1)
	for name, content := range map[string]string{"older": older, "other": other, "broken": mine[:len(mine)/2], "empty": ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b.fails(b.run(one, push(name, false)))
		if b.store.State() != mine {
			t.Fatalf("%s replaced the state", name)
		}
		b.free()
	}
	b.fails(b.run(one, push("missing", false)))
	b.ok(b.run(one, push("other", true)))
	has(t, b.store.State(), `"lineage":"0`)
	b.stdin = mine
	b.ok(b.run(one, push("-", true)))
	if objectsIn(t, b.store.State())["lab_thing.a"]["id"] != "thing-a" {
		t.Error("the state from stdin isn't there")
	}
	b.free()
}

func TestStateList(t *testing.T) {
	list := func(below ...string) func(context.Context, *engine.Engine) error {
		return func(ctx context.Context, e *engine.Engine) error { return e.StateList(ctx, below...) }
	}
	b := newBench(t)
	has(t, b.fails(b.run(one, list())).err, "There is no state yet")
	b.ok(b.apply(three))
	if got := b.ok(b.run(three, list())).out; got != "lab_thing.a\nlab_thing.b\nlab_thing.c\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok(b.run(three, list("lab_thing.b"))).out; got != "lab_thing.b\n" {
		t.Errorf("got %q", got)
	}
}

func TestShowState(t *testing.T) {
	show := func(path string) func(context.Context, *engine.Engine) error {
		return func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, path) }
	}
	b := newBench(t)
	has(t, b.ok(b.run(one, show(""))).out, "No resources are represented.")
	b.ok(b.apply(one))
	has(t, b.ok(b.run(one, show(""))).out, "# lab_thing.a:", `id = "thing-a"`, "Outputs:")
	if err := os.WriteFile("s", []byte(b.store.State()), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, b.ok(b.run(one, show("s"))).out, "# lab_thing.a:")
	b.set = func(o *engine.Options) { o.JSON = true }
	has(t, b.ok(b.run(one, show(""))).out, `"format_version":"1.0"`, `"address":"lab_thing.a"`)
}

func TestStateUnreadable(t *testing.T) {
	b := newBench(t)
	if err := b.store.Put(context.Background(), []byte("<html>502</html>")); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []func(context.Context, *engine.Engine) error{
		apply(engine.ApplyOptions{AutoApprove: true}), pull,
		func(ctx context.Context, e *engine.Engine) error { return e.Output(ctx, "", false) },
	} {
		has(t, b.fails(b.run(one, verb)).err, "rror loading state")
		b.free()
	}
}

// OpenTofu panics at such values when an apply has begun.
func TestPersistInterval(t *testing.T) {
	for _, v := range []string{"5", "soon", "-1"} {
		b := newBench(t)
		t.Setenv("TF_STATE_PERSIST_INTERVAL", v)
		p := b.apply(one)
		if p.failure == nil || !strings.Contains(p.failure.Error(), "TF_STATE_PERSIST_INTERVAL") {
			t.Errorf("%s: %v", v, p.failure)
		}
	}
}
