# As much of nixpkgs as yuba's Nix code uses, so that it can be evaluated and built where nixpkgs
# can't be had. Builders are this machine's bash and coreutils. `lib` can be nixpkgs' own.
{
  system ? builtins.currentSystem,
  lib ? import ./lib.nix,
}:
let
  cpu = builtins.head (builtins.split "-" system);
  platform = {
    inherit system;
    parsed.cpu.name = cpu;
    canExecute = other: other.system == system;
  };

  # Runs a script with variables in its environment. Its last command is bash's own: coreutils close
  # their output before they exit, which Nix takes as the builder's end, and kills it.
  run =
    name: env: script:
    derivation (
      {
        inherit name system;
        builder = "/bin/bash";
        args = [
          "-euc"
          "${script}\nexit 0"
        ];
        PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
      }
      // env
    );

  # A program of which only the name matters.
  program = name: pkgs.writeShellScriptBin name "exit 0";

  pkgs = {
    inherit lib system;
    stdenv = {
      inherit system;
      hostPlatform = platform;
      buildPlatform = platform;
    };

    callPackage =
      file: extra:
      let
        f = if builtins.isFunction file then file else import file;
        wanted = builtins.functionArgs f;
      in
      f (builtins.intersectAttrs wanted pkgs // extra);

    runCommand = run;
    writeText = name: text: run name { inherit text; } ''printf %s "$text" >"$out"'';
    writeTextDir =
      path: text:
      run (baseNameOf path) { inherit text; } ''
        mkdir -p "$out/${dirOf path}"
        printf %s "$text" >"$out/${path}"
      '';
    writeShellScriptBin =
      name: text:
      run name
        {
          text = ''
            #!/bin/bash
            ${text}
          '';
        }
        ''
          mkdir -p "$out/bin"
          printf %s "$text" >"$out/bin/${name}"
          chmod +x "$out/bin/${name}"
        '';
    formats.json = _: {
      type =
        let
          inherit (lib) types;
          value = types.nullOr (
            types.oneOf [
              types.bool
              types.int
              types.str
              (types.attrsOf value)
              (types.listOf value)
            ]
          );
        in
        value;
      generate = name: value: pkgs.writeText name (builtins.toJSON value);
    };

    closureInfo =
      { rootPaths }:
      run "closure-info"
        {
          exportReferencesGraph = lib.concatMap (path: [
            "graph-${builtins.hashString "sha256" (builtins.unsafeDiscardStringContext "${path}")}"
            path
          ]) rootPaths;
        }
        ''
          mkdir "$out"
          grep -h '^${builtins.storeDir}/' graph-* | LC_ALL=C sort -u >"$out/store-paths"
        '';

    installShellFiles = "installShellFiles";
    buildGoModule = import ./build-go-module.nix { inherit lib run; };

    nix = program "nix-store";
    spire = {
      agent = program "spire-agent";
      server = program "spire-server";
    };

    # Only looks at what a test says that it does.
    testers.runNixOSTest = test: run "vm-test-run-${test.name}" { inherit (test) testScript; } "exit 1";
    dockerTools.buildImage = { name, ... }: program name;
    buildEnv = { name, ... }: program name;
    busybox = program "busybox";
    curl = program "curl";
    openssh = program "ssh-keygen";

    # As pkgs.nixos in nixpkgs.
    nixos =
      module:
      lib.evalModules {
        modules = [
          ./nixos.nix
          module
        ];
        specialArgs = {
          inherit pkgs lib;
        };
      };
  };
in
pkgs
