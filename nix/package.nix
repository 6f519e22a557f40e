# yuba as one derivation: one static program, its completions and its manual pages.
{
  lib,
  stdenv,
  buildGoModule,
  installShellFiles,
}:
let
  # The program is stamped as the Makefile does it, which has the version.
  version = builtins.head (
    builtins.match ".*\nVERSION[ ?:]*= *([^\n ]+)\n.*" (builtins.readFile ../Makefile)
  );

  # What is no part of the program and its tests, so that a change there builds nothing again.
  leftOut = [
    ".ci"
    ".git"
    "bin"
    "dist"
    "nix"
    "result"
    "vendor"
  ];
in
buildGoModule {
  pname = "yuba";
  inherit version;

  src = lib.cleanSourceWith {
    name = "yuba-source";
    src = ../.;
    filter = path: _: !(dirOf path == toString ../. && builtins.elem (baseNameOf path) leftOut);
  };

  # A hash of the modules as the module proxy serves them, not of vendor/: the modules below
  # engine/ are part of the source, and a change there does not change it. Whenever go.mod or
  # go.sum changes, `make nix` says the new one.
  proxyVendor = true;
  # What proxies say of where a version came from, which is not the same everywhere. Builds don't
  # need it.
  modPostBuild = ''
    find "$GOPATH/pkg/mod/cache/download" -name '*.info' -delete
  '';
  vendorHash = "sha256-7yKoEVcg/yqwceUu7D0TZan50KrVwBqZCihgPaLYmGg=";

  subPackages = [ "cmd/yuba" ];
  env.CGO_ENABLED = "0";
  ldflags = [
    "-s"
    "-w"
    "-X main.version=${version}"
    "-X github.com/opentofu/opentofu/version.dev=no"
  ];

  # The tests that need nothing but the source, the nested module engine/ included. Those that
  # need a cluster, a registry or another program are for the Makefile.
  checkPhase = ''
    runHook preCheck
    packages=$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... github.com/opentofu/opentofu/yuba/... |
      grep -v -e '^fediversity.eu/yuba/test/' -e yuba/test/lab -e yuba/test/sshd -e yuba/test/world | cut -d ' ' -f 1)
    go test -p "$NIX_BUILD_CORES" $packages
    runHook postCheck
  '';

  nativeBuildInputs = [ installShellFiles ];
  # The pages that help and errors refer to. When it is built for another kind of machine, the
  # program can't print completions and manual pages.
  postInstall = ''
    mkdir -p $out/share/doc/yuba
    cp -r $src/README.md $src/docs $out/share/doc/yuba/
  ''
  + lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    installShellCompletion --cmd yuba \
      --bash <($out/bin/yuba completion bash) \
      --fish <($out/bin/yuba completion fish) \
      --zsh <($out/bin/yuba completion zsh)
    $out/bin/yuba man man1
    installManPage man1/*.1
  '';

  meta = {
    description = "Deploys groups of NixOS nodes to Kubernetes, with OpenTofu's state";
    mainProgram = "yuba";
    platforms = lib.platforms.linux;
  };
}
