# What nixpkgs' buildGoModule does, with the compiler, the module cache and the build cache of this
# machine. The hash of the modules is looked at by a test.
{ lib, run }:
args:
assert args.proxyVendor;
run "${args.pname}-${args.version}"
  (
    {
      inherit (args) src;
      ldflags = lib.concatStringsSep " " args.ldflags;
      subPackages = lib.concatStringsSep " " args.subPackages;
      go = builtins.getEnv "YUBA_TEST_GO";
      goCache = builtins.getEnv "YUBA_TEST_GOCACHE";
      goModCache = builtins.getEnv "YUBA_TEST_GOMODCACHE";
    }
    // args.env
  )
  ''
    export HOME=$PWD GOCACHE=$goCache GOMODCACHE=$goModCache GOFLAGS="-trimpath -buildvcs=false" GOPROXY=off GOTOOLCHAIN=local
    runHook() { :; }
    installShellCompletion() {
      test "$1 $2" = "--cmd yuba"
      shift 2
      while [ $# -gt 0 ]; do
        install -D -m 644 "$2" "$out/share/completions/''${1#--}"
        shift 2
      done
    }
    installManPage() { install -D -m 644 -t "$out/share/man/man1" "$@"; }

    mkdir -p "$out/bin"
    work=$PWD
    cd "$src"
    for package in $subPackages; do
      "$go" build -ldflags "$ldflags -buildid=" -o "$out/bin/" "./$package"
    done
    cd "$work"
    ${args.postInstall}
  ''
// {
  inherit (args) checkPhase meta modPostBuild vendorHash;
}
